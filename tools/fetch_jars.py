#!/usr/bin/env python3
"""Fetches jars of Maven Central into a folder: fetch_jars.py LIST FOLDER.

A line of the list has the SHA-256 of a jar and its path in the repository. The folder appears when all jars
are there, so that an interrupted run leaves nothing that looks complete.
"""

import hashlib
import shutil
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = "https://repo.maven.apache.org/maven2/"
AT_ONCE = 8


def parse(text: str) -> list[tuple[str, str]]:
    """Returns digest and path of each line."""
    return [(digest, path) for digest, path in (line.split() for line in text.splitlines())]


def fetch(digest: str, path: str, folder: Path) -> None:
    """Fetches a jar. Fails if it is not the one of the list."""
    with urllib.request.urlopen(REPOSITORY + path, timeout=60) as answer:
        content = answer.read()
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise SystemExit(f"{path} has SHA-256 {found}, expected {digest}")
    (folder / Path(path).name).write_bytes(content)


def main() -> None:
    """Fetches all jars of a list."""
    jars, folder = parse(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    unfinished = folder.with_name(folder.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda jar: fetch(*jar, unfinished), jars))
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


if __name__ == "__main__":
    main()
