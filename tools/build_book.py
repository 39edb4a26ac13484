#!/usr/bin/env python3
"""Builds a site from the pages of docs/: `tools/build_book.py MDBOOK [--chromium CHROMIUM]`.

The site is a plain folder, and a browser needs no server for it. MDBOOK is the program mdBook. This program
writes the source of the book to target/book/source: the pages, and SUMMARY.md from the index pages. Then
mdBook writes target/book/site, as `docs/book.toml` configures it.

A page of docs/ may link to any text file of the repository. The book has such a file as a page in its folder
`repository`. Markdown is rendered, and other text is shown as code.

After that, this program follows each link of the site, because a browser has only the files of this folder.
`--chromium` also opens a page from the folder in Chromium, without a server, and searches for a title.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from posixpath import basename, dirname, join, normpath, relpath
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "target/book/source"
SITE = ROOT / "target/book/site"

#: The first page of the book.
INDEX = "docs/README.md"
#: The folder of the book that has copies of files outside of docs/.
OUTSIDE = "repository"
PICTURES = (".jpg", ".png", ".svg", ".webp")
#: Words of file names with the spelling that titles give them.
WORDS = {"sqlite": "SQLite", "tls": "TLS", "vm": "VM", "xml": "XML"}

#: The search that `--chromium` makes: the page to open, the words, and the page that must be found.
SEARCH_FROM = "reference/limits.html"
SEARCH_WORDS = "safe retries"
SEARCH_RESULT = "../how-to/safe-retries.html"
#: Seconds that a run of the browser may last.
CHROMIUM_PATIENCE_SECONDS = 120

#: Pattern of a heading of an index page, or of the link at the start of an item or a row.
ENTRY = re.compile(r"^(?:## (?P<group>.+)|(?:- |\| )\[(?P<title>[^\]]+)\]\((?P<path>[^)#:]+\.md)\).*)$", re.M)
#: Pattern of code, which is skipped, or of the path of a relative link.
LINK = re.compile(r"```.*?```|`(?:[^`\n]|\n(?!\n))*`|(?<=\]\()(?P<path>[^)\s#:]+)(?=[)\s#])", re.DOTALL)


class Fault(Exception):
    """The book cannot be built, or a link or the search of it does not work."""


class Entry(NamedTuple):
    """A page in an index, with the heading above it."""

    group: str
    title: str
    page: str


class Tree(NamedTuple):
    """The files of the repository: their names, and a function that returns the text of one."""

    names: frozenset[str]
    read: Callable[[str], str]


def entries_of(index: str, text: str) -> list[Entry]:
    """Returns the pages that an index page lists, in its order."""
    found, group = [], ""
    for match in ENTRY.finditer(text):
        if match["group"]:
            group = match["group"]
        else:
            title = title_of(match["title"])
            found.append(Entry(group, title, normpath(join(dirname(index), match["path"]))))
    return found


def title_of(link: str) -> str:
    """Returns the title of a page in the sidebar, from the text of a link. The text may be a file name."""
    if not link.endswith(".md"):
        return link
    words = " ".join(WORDS.get(word, word) for word in link.removesuffix(".md").split("-"))
    return words[0].upper() + words[1:]


def summary(tree: Tree, outside: list[str]) -> str:
    """Returns SUMMARY.md: the first page, a part for each of its headings, and the files outside of docs/."""
    lines, listed, group = ["# Summary", "", f"[Documentation]({place_of(INDEX)})"], [], None
    for entry in entries_of(INDEX, tree.read(INDEX)):
        if entry.group != group:
            group = entry.group
            lines += ["", f"# {group}", ""]
        lines.append(f"- [{entry.title}]({place_of(entry.page)})")
        listed.append(entry.page)
        if basename(entry.page) == "README.md":
            inner = entries_of(entry.page, tree.read(entry.page))
            lines += chapters(inner)
            listed += [page for _, _, page in inner]
    if outside:
        lines += ["", "# Files of the repository", ""]
        lines += [f"- [{name}]({place_of(name)})" for name in outside]
    check_listed(tree, listed)
    return "\n".join(lines) + "\n"


def chapters(entries: list[Entry]) -> list[str]:
    """Returns the lines for the pages of an inner index. Each heading is a chapter without a page."""
    lines, group = [], None
    for entry in entries:
        if entry.group != group:
            group = entry.group
            lines.append(f"  - [{group}]()")
        lines.append(f"    - [{entry.title}]({place_of(entry.page)})")
    return lines


def check_listed(tree: Tree, listed: list[str]):
    """Fails unless the index pages list each page of docs/ once."""
    pages = {name for name in tree.names if is_page_of_docs(name)} - {INDEX}
    faults = [f"{page}: no index lists it" for page in sorted(pages - set(listed))]
    faults += [f"{page}: an index lists it, but it does not exist" for page in sorted(set(listed) - pages)]
    faults += [
        f"{page}: listed {count} times" for page, count in sorted(Counter(listed).items()) if count > 1
    ]
    if faults:
        raise Fault("\n".join(faults))


def is_page_of_docs(name: str) -> bool:
    return name.startswith("docs/") and name.endswith(".md")


def place_of(name: str) -> str:
    """Returns the path of a repository file in the book."""
    place = name.removeprefix("docs/") if name.startswith("docs/") else f"{OUTSIDE}/{name}"
    if basename(place) == "README.md":
        return place.removesuffix("README.md") + "index.md"
    return place if place.endswith((".md", *PICTURES)) else f"{place}.md"


def target_of(tree: Tree, page: str, link: str) -> str | None:
    """Returns the file that a relative link of a page leads to. A folder is represented by its README.md."""
    target = normpath(join(dirname(page), link))
    return next((name for name in (target, f"{target}/README.md") if name in tree.names), None)


def relinked(tree: Tree, page: str, text: str) -> tuple[str, list[str]]:
    """Returns a page with the links that it has in the book, and the files that they lead to."""
    targets = []

    def replaced(match: re.Match) -> str:
        target = match["path"] and target_of(tree, page, match["path"])
        if not target:
            return match[0]
        targets.append(target)
        return relpath(place_of(target), dirname(place_of(page)) or ".")

    return LINK.sub(replaced, text), targets


def shown(name: str, text: str) -> str:
    """Returns a page that shows a text that is not Markdown."""
    fence = "`" * (max([2, *map(len, re.findall("`+", text))]) + 1)
    return (
        f"# {basename(name)}\n\nThe file `{name}` of the repository:\n\n{fence}\n{text.rstrip()}\n{fence}\n"
    )


def book_of(tree: Tree) -> tuple[dict[str, str], list[str]]:
    """Returns the texts of the book by their places, and the pictures of the repository that it needs."""
    waiting = sorted(name for name in tree.names if is_page_of_docs(name))
    texts, pictures, seen = {}, [], set(waiting)
    while waiting:
        name = waiting.pop(0)
        if name.endswith(PICTURES):
            pictures.append(name)
            continue
        text, targets = tree.read(name), []
        if name.endswith(".md"):
            text, targets = relinked(tree, name, text)
        else:
            text = shown(name, text)
        texts[place_of(name)] = text
        new = sorted(set(targets) - seen)
        waiting += new
        seen |= set(new)
    outside = sorted(name for name in seen if not name.startswith("docs/") and not name.endswith(PICTURES))
    texts["SUMMARY.md"] = summary(tree, outside)
    return texts, pictures


class Links(HTMLParser):
    """The anchors of a page of the site, and the addresses that it links to or loads."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
        values = dict(attrs)
        if values.get("id"):
            self.anchors.add(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        loaded = values.get("href") if tag == "link" else values.get("src")
        if loaded:
            self.loads.append(loaded)


def faults_of(site: Path) -> list[str]:
    """Returns the links of a site that do not work in a plain folder."""
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in sorted(site.rglob("*.html"))}
    faults = []
    for page, parsed in pages.items():
        name = page.relative_to(site)
        faults += [
            f"{name}: loads {url}" for url in parsed.loads if urlsplit(url).scheme or url.startswith("/")
        ]
        faults += [
            f"{name}: {url}: {fault}"
            for url in parsed.loads + parsed.links
            if (fault := broken(pages, page, url))
        ]
    return faults


def broken(pages: dict[Path, Links], page: Path, url: str) -> str | None:
    """Returns the reason why a relative link does not work, or nothing."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return None
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and (target not in pages or anchor not in pages[target].anchors):
        return "no such heading"
    return None


def tracked() -> Tree:
    """Returns the files that git tracks."""
    run = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, check=True, capture_output=True, text=True)
    names = frozenset(name for name in run.stdout.split("\0") if name and (ROOT / name).is_file())
    return Tree(names, lambda name: (ROOT / name).read_text(encoding="utf-8"))


def write(texts: dict[str, str], pictures: list[str]):
    """Replaces the source of the book."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for place, text in texts.items():
        file = SOURCE / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for name in pictures:
        file = SOURCE / place_of(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, file)


def results_of(dom: str) -> list[str]:
    """Returns the pages that a search found, from the document in the browser."""
    found = re.search(r'<ul id="mdbook-searchresults">(.*?)</ul>', dom, re.DOTALL)
    return [urlsplit(link).path for link in re.findall(r'<a href="([^"]*)"', found[1])] if found else []


def search(site: Path, chromium: str):
    """Opens a page of the site without a server, and fails unless a search finds another page."""
    url = f"{(site / SEARCH_FROM).as_uri()}?search={quote(SEARCH_WORDS)}"
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        # The browser must not reach any host. Root cannot use the sandbox. The sandbox is not needed, because
        # the pages come from this repository.
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--no-sandbox", f"--user-data-dir={profile}"]
        # This limit counts the virtual time of the page, which stops while the page loads a script. The limit
        # is therefore the same on a slow machine.
        command += ["--virtual-time-budget=10000", "--dump-dom", url]
        environment = os.environ | {"HOME": profile}
        run = subprocess.run(
            command,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=CHROMIUM_PATIENCE_SECONDS,
        )
    results = results_of(run.stdout)
    if SEARCH_RESULT not in results:
        raise Fault(f"{url}: the search must find {SEARCH_RESULT}, but it found {results}")


def build(mdbook: str, chromium: str | None) -> int:
    """Builds the site and checks it. Returns the number of its pages."""
    texts, pictures = book_of(tracked())
    write(texts, pictures)
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run((mdbook, "build", "docs"), cwd=ROOT, check=True)
    if faults := faults_of(SITE):
        raise Fault("\n  ".join(["links that do not work in a plain folder:", *faults]))
    if chromium:
        search(SITE, chromium)
    return len(texts) - 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mdbook", help="the program mdBook")
    parser.add_argument("--chromium", help="the program Chromium, which searches the site")
    options = parser.parse_args()
    try:
        pages = build(options.mdbook, options.chromium)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return 1
    print(f"{pages} pages: {SITE.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
