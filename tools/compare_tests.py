#!/usr/bin/env python3
"""Compares the names of the Rust tests of two commits: `tools/compare_tests.py BEFORE [AFTER] [--moved]`.

Prints the tests that are gone and the new tests. A test that keeps its function name and changes its module
or crate has moved. The last line counts these tests, and `--moved` lists them. AFTER is HEAD unless it is
given, and `.` is the worktree.

The names come from the sources without a build. A name has three parts: the crate, the target, and the
modules. The target is left out for the library and the program. Modules are found by file and by `mod NAME {
... }`. A file that `#[path]` includes elsewhere counts once, at its own path.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

#: Pattern of the text between the brackets of a test attribute: `test`, `tokio::test(flavor =
#: "current_thread")`.
IS_TEST = re.compile(r"(\w+::)*test(\(.*\))?", re.DOTALL)
#: Pattern of text that is not code: comments to the end of the line, strings, raw strings, characters.
NO_CODE = re.compile(
    r"""//[^\n]*"""
    r"""|\b(?:br|cr|r)(?P<hashes>\#*)".*?"(?P=hashes)"""
    r"""|"(?:\\.|[^"\\])*\""""
    r"""|'(?:\\u\{[^}]*\}|\\x..|\\.|[^\\'\n])'"""
    r"""|/\*""",
    re.DOTALL,
)
TOKEN = re.compile(r"#!?\[|[{}\[\]]|\bmod\s+(?P<module>\w+)\s*\{|\bfn\s+(?P<function>\w+)")


class Name(NamedTuple):
    """A test. `place` is its crate and target."""

    place: str
    path: str

    @property
    def function(self) -> str:
        return self.path.rsplit("::", 1)[-1]

    def __str__(self):
        return f"{self.place} {self.path}"


def tests_in(source: str) -> list[str]:
    """Returns the tests of a file, with the modules inside of it: `tests::name`."""
    code = without_text(source)
    found, modules, is_test, at = [], [], False, 0
    while token := TOKEN.search(code, at):
        at = token.end()
        text = token[0]
        if text == "#[" or text == "#![":
            at = end_of_brackets(code, at)
            is_test = is_test or IS_TEST.fullmatch(code[token.end() : at - 1].strip()) is not None
        elif token["module"]:
            modules.append(token["module"])
        elif text == "{":
            modules.append(None)
        elif text == "}":
            del modules[-1:]
        elif token["function"] and is_test:
            found.append("::".join([*filter(None, modules), token["function"]]))
            is_test = False
    return found


def end_of_brackets(code: str, at: int) -> int:
    """Returns the place after the closing bracket of the bracket before `at`."""
    depth = 1
    while depth and at < len(code):
        depth += {"[": 1, "]": -1}.get(code[at], 0)
        at += 1
    return at


def without_text(source: str) -> str:
    """Returns the code with a blank for each comment, string and character."""
    parts, at = [], 0
    while match := NO_CODE.search(source, at):
        parts += [source[at : match.start()], " "]
        at = end_of_comment(source, match.end()) if match[0] == "/*" else match.end()
    return "".join([*parts, source[at:]])


def end_of_comment(source: str, at: int) -> int:
    """Returns the place after the end of the comment whose `/*` is before `at`. Block comments of Rust
    nest."""
    depth = 1
    while depth and (mark := re.compile(r"/\*|\*/").search(source, at)):
        depth += 1 if mark[0] == "/*" else -1
        at = mark.end()
    return at if depth == 0 else len(source)


def place_of(file: str) -> tuple[str, list[str]] | None:
    """Returns the crate with its target, and the modules of a file. `None` for a file in no crate."""
    match = re.fullmatch(
        r"(?:crates/)?(?P<crate>[^/]+)/(?P<folder>src|tests|benches|examples)/(?P<rest>.+)\.rs", file
    )
    if match is None:
        return None
    crate, folder, parts = match["crate"], match["folder"], match["rest"].split("/")
    if folder != "src":
        target, *parts = parts
        crate = f"{crate}/{folder}/{target}"
        if parts == ["main"]:
            parts = []
    elif parts in (["lib"], ["main"]):
        parts = []
    if parts[-1:] == ["mod"]:
        parts.pop()
    return crate, parts


def names_in(files: dict[str, str]) -> set[Name]:
    """Returns the tests of files by their paths."""
    found = set()
    for file, source in files.items():
        place = place_of(file)
        if place is not None:
            crate, modules = place
            found.update(Name(crate, "::".join([*modules, test])) for test in tests_in(source))
    return found


class Difference(NamedTuple):
    gone: list[Name]
    new: list[Name]
    moved: list[tuple[Name, Name]]


def difference(before: set[Name], after: set[Name]) -> Difference:
    """Pairs gone and new tests of the same function name, in order. Tests without a partner stay alone."""
    new_by_function = defaultdict(list)
    for name in sorted(after - before):
        new_by_function[name.function].append(name)
    gone, moved = [], []
    for name in sorted(before - after):
        partners = new_by_function[name.function]
        if partners:
            moved.append((name, partners.pop(0)))
        else:
            gone.append(name)
    return Difference(gone, sorted(name for names in new_by_function.values() for name in names), moved)


def files_of(commit: str) -> dict[str, str]:
    """Returns the Rust files of a commit, or of the worktree for `.`."""
    if commit == ".":
        listed = git("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.rs").split("\0")
        return {file: Path(file).read_text() for file in listed if Path(file).is_file()}
    listed = git("ls-tree", "-r", "-z", "--name-only", commit).split("\0")
    files = [file for file in listed if file.endswith(".rs")]
    asked = "".join(f"{commit}:{file}\n" for file in files)
    answer = subprocess.run(
        ["git", "cat-file", "--batch"], input=asked.encode(), capture_output=True, check=True
    )
    return dict(zip(files, contents_of(answer.stdout), strict=True))


def contents_of(answer: bytes) -> list[str]:
    """Returns the files in an answer of `git cat-file --batch`.

    A file is a line with its length, its bytes, and a line end.
    """
    contents, at = [], 0
    while at < len(answer):
        end = answer.index(b"\n", at)
        length = int(answer[at:end].rsplit(b" ", 1)[1])
        contents.append(answer[end + 1 : end + 1 + length].decode())
        at = end + 1 + length + 1
    return contents


def git(*arguments: str) -> str:
    answer = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(answer.stderr.strip())
    return answer.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", default="HEAD", help="a commit, or `.` for the worktree")
    parser.add_argument("--moved", action="store_true", help="list the tests that moved")
    arguments = parser.parse_args()
    before, after = (names_in(files_of(commit)) for commit in (arguments.before, arguments.after))
    found = difference(before, after)
    for sign, names in (("-", found.gone), ("+", found.new)):
        for name in names:
            print(f"{sign} {name}")
    if arguments.moved:
        for old, new in found.moved:
            print(f"> {old} -> {new}")
    crates = Counter(old.place == new.place for old, new in found.moved)
    print(
        f"{len(before)} tests before, {len(after)} after: {len(found.gone)} gone, {len(found.new)} new, "
        f"{len(found.moved)} moved, {crates[False]} of them to another crate or target"
    )


if __name__ == "__main__":
    main()
