#!/usr/bin/env python3
"""Makes a release from a clean clone: `tools/release.py VERSION [--dry-run] [--binary PATH]`.

First it checks that the version, the changelog, the tag and the files with an example of a download fit
together. Then it builds the site of the documentation and the files of `make dist`, and tries them by `make
dist-test`. It adds the site and the notes of the release to target/dist. At the end it writes the tag. It
publishes nothing.

`--dry-run` writes no tag and does not run `make dist-test`. It prints what has to be true only on the day of
the release, and does not fail because of it. Without mdBook a dry run leaves out the site. `--binary` is a
program that is built already. Only a dry run takes it.
"""

import argparse
import datetime
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from build_book import SITE
from make_dist import HERE, OUT, STATIC, write_sums
from packages import zig
from packages.release import ROOT, maintainer, output, packed_tree, version

#: The numbers of SemVer, without leading zeros, and a pre-release after a hyphen.
SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
#: The first section of the changelog: `## 0.1.0 (unreleased)` or `## 0.1.0 - 2027-01-31`.
HEADING = re.compile(r"^## (?P<version>\S+)(?: - (?P<date>\S+)| \(unreleased\))$", re.MULTILINE)
#: Files that name a version in the name of a download or of an image.
EXAMPLES = ("docs/how-to/install.md", "dist/compose/compose.yaml", "dist/kubernetes/tollgate.yaml")
NAMED = re.compile(r"tollgate[-_:](\d+\.\d+\.\d+)")


def faults_of_each_commit(root: Path, wanted: str) -> Iterator[str]:
    """Yields what is wrong on every day, not only on the day of the release."""
    if not SEMVER.fullmatch(wanted):
        yield f"the version is {wanted}, expected is a version of SemVer such as 0.2.0"
    if version(root) != wanted:
        yield f"Cargo.toml has the version {version(root)}, not {wanted}"
    heading = HEADING.search((root / "CHANGELOG.md").read_text())
    if not heading or heading["version"] != wanted:
        yield f"the first section of CHANGELOG.md is {heading[0] if heading else 'missing'}, not {wanted}"
    for path in EXAMPLES:
        others = sorted(set(NAMED.findall((root / path).read_text())) - {wanted})
        if others:
            yield f"{path} names the version {', '.join(others)}, not {wanted}"


def faults_of_the_day(root: Path, wanted: str, today: datetime.date) -> Iterator[str]:
    """Yields what has to be true only when the tag is written."""
    if changes := git(root, "status", "--porcelain"):
        names = [line.split(maxsplit=1)[1] for line in changes.splitlines()]
        yield f"files differ from the commit: {', '.join(names[:5])}"
    if git(root, "tag", "--list", f"v{wanted}"):
        yield f"the tag v{wanted} exists. A tag never moves, so release the next version"
    heading = HEADING.search((root / "CHANGELOG.md").read_text())
    if heading and heading["version"] == wanted:
        yield from faults_of_date(wanted, heading["date"], today)
    if ".example>" in maintainer(root):
        yield f"authors of Cargo.toml is the placeholder {maintainer(root)}. Set an address that people can use"


def faults_of_date(wanted: str, date: str | None, today: datetime.date) -> Iterator[str]:
    try:
        found = datetime.date.fromisoformat(date or "")
    except ValueError:
        yield f"CHANGELOG.md has no date for {wanted}. Write: ## {wanted} - {today}"
        return
    if found > today:
        yield f"CHANGELOG.md dates {wanted} to {found}, which is after today, {today}"


def git(root: Path, *arguments: str) -> str:
    return output("git", *arguments, cwd=root).strip()


def notes(root: Path, wanted: str) -> str:
    """Returns the section of the changelog, without its heading."""
    text = (root / "CHANGELOG.md").read_text()
    begin = HEADING.search(text)
    assert begin and begin["version"] == wanted, "the first section was checked"
    return text[begin.end() :].split("\n## ")[0].strip() + "\n"


def write_site(wanted: str, out: Path) -> None:
    seconds = int(git(ROOT, "log", "-1", "--format=%ct"))
    name = f"tollgate-{wanted}-docs"
    (out / f"{name}.tar.gz").write_bytes(packed_tree(SITE, name, seconds))


def check_sums(out: Path) -> None:
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        found = hashlib.sha256((out / name).read_bytes()).hexdigest()
        if found != digest:
            sys.exit(f"release: {name} has the digest {found}, SHA256SUMS has {digest}")


def check_programs() -> None:
    """Runs the programs of this machine: each names the commit that gets the tag."""
    commit = git(ROOT, "log", "-1", "--abbrev=12", "--format=%h")
    for target in (HERE, STATIC):
        text = output(zig.program(target), "--version")
        if f"(commit {commit} of " not in text or "with changes" in text:
            refuse([f"the program for {target} was built from another commit than {commit}: {text}"])


def make(*words: str) -> None:
    subprocess.run(["make", *words], cwd=ROOT, check=True)


def build(wanted: str, options: argparse.Namespace) -> None:
    """Builds and tries all files of the release in an empty folder."""
    shutil.rmtree(OUT, ignore_errors=True)
    if options.dry_run:
        make("dist", *([f"BINARY={options.binary}"] if options.binary else []))
    else:
        make("dist-test")
    if not options.dry_run or options.mdbook.exists():
        make("docs")
        write_site(wanted, OUT)
    else:
        print(f"left out: the site of the documentation, because {options.mdbook} is missing (make docs)")
    if not options.dry_run:
        check_programs()
    (OUT / f"tollgate-{wanted}-notes.md").write_text(notes(ROOT, wanted))
    write_sums([path for path in OUT.iterdir() if path.name != "SHA256SUMS"], OUT)
    check_sums(OUT)


def commands_of_tag(wanted: str) -> list[list[str]]:
    """Returns the command that writes the tag, and the command that publishes it."""
    tag = f"v{wanted}"
    return [
        ["git", "tag", "--sign", tag, "--message", f"Tollgate {wanted}"],
        ["git", "push", "--atomic", "origin", "HEAD", tag],
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("version", nargs="?")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--mdbook", type=Path, default=ROOT / "target/tools/mdbook")
    options = parser.parse_args()
    if not options.version and not options.dry_run:
        parser.error("name the version: make release VERSION=0.2.0")
    if options.binary and not options.dry_run:
        parser.error("a release builds its own programs. Use --binary only with --dry-run")
    return options


def refuse(faults: list[str]) -> None:
    if faults:
        sys.exit("\n".join(f"release: {fault}" for fault in faults))


def main(today: Callable[[], datetime.date] = datetime.date.today) -> None:
    options = arguments()
    wanted = options.version or version()
    refuse(list(faults_of_each_commit(ROOT, wanted)))
    later = list(faults_of_the_day(ROOT, wanted, today()))
    if options.dry_run:
        print("\n".join(f"before the release: {fault}" for fault in later))
    else:
        refuse(later)
    build(wanted, options)
    tag, push = commands_of_tag(wanted)
    if options.dry_run:
        print(f"would run: {' '.join(tag)}")
    else:
        # The build and the tests may have changed files of the repository.
        refuse(list(faults_of_the_day(ROOT, wanted, today())))
        subprocess.run(tag, cwd=ROOT, check=True)
    print(f"then publish {OUT.relative_to(ROOT)}, and run: {' '.join(push)}")


if __name__ == "__main__":
    main()
