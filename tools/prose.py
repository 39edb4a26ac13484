"""Finds the prose of the repository: paragraphs of Markdown, and comments of Rust and Python.

Code, tables, headings and addresses are left out, because the rules for sentences do not apply to them.
"""

import io
import re
import subprocess
import tokenize
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

#: Pattern of Rust comments, and of literals that may contain the signs of a comment.
RUST = re.compile(
    r"""(?P<line>//[^\n]*)"""
    r"""|(?P<block>/\*)"""
    r"""|(?:b|c|br|cr)?r(?P<hashes>\#+)".*?"(?P=hashes)"""
    r"""|(?:b|c|br|cr)?r"[^"]*\""""
    r"""|"(?:\\.|[^"\\])*\""""
    r"""|'(?:\\u\{[^}]*\}|\\x..|\\.|[^\\'\n])'""",
    re.DOTALL,
)
#: Pattern of the space between two sentences. The next sentence begins with a capital, a number, code or a
#: bracket.
END = re.compile(r"""(?<=[.!?])["')\]*]*\s+(?=["'(\[*]*[A-Z0-9`]|\*\*)""")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs|No|sec)\.$")
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
ITEM = re.compile(r"(?:[-*]|\d+\.)\s+")


class Piece(NamedTuple):
    """A paragraph, an item of a list, or a sentence. `line` is where it begins."""

    line: int
    text: str


def pieces_of(name: str, text: str) -> list[Piece]:
    """Returns the paragraphs of a file whose ending is one of `READERS`."""
    return [piece for block in READERS[Path(name).suffix](text) for piece in paragraphs(block)]


def markdown(text: str) -> list[list[tuple[int, str]]]:
    """Returns the lines of a page with their numbers, as one block."""
    return [list(enumerate(text.splitlines(), 1))]


def paragraphs(lines: list[tuple[int, str]]) -> list[Piece]:
    """Returns the paragraphs of numbered lines of Markdown."""
    found, words, begin, is_fenced = [], [], 0, False

    def finish():
        if words:
            found.append(Piece(begin, LINK.sub(label_of, "\n".join(words))))
        words.clear()

    for number, line in lines:
        stripped = line.strip()
        if stripped.startswith("```"):
            is_fenced = not is_fenced
            finish()
        elif is_fenced or not stripped or stripped[0] in "|#<" or (not words and line.startswith("    ")):
            finish()
        else:
            if item := ITEM.match(stripped):
                finish()
                stripped = stripped[item.end() :]
            if not words:
                begin = number
            words.append(stripped)
    finish()
    return found


def label_of(link: re.Match) -> str:
    """Returns the text of a link, with the line breaks of the whole."""
    return link[1] + "\n" * (link[0].count("\n") - link[1].count("\n"))


def rust_comments(text: str) -> list[list[tuple[int, str]]]:
    """Returns the comments of a Rust file: blocks of lines that follow each other."""
    lines, line, last = [], 1, 0
    for found in RUST.finditer(text):
        line += text.count("\n", last, found.start())
        last = found.start()
        if found["line"]:
            begin = text.rfind("\n", 0, found.start()) + 1
            is_alone = not text[begin : found.start()].strip()
            lines.append((line, found["line"], is_alone))
    return blocks(lines, re.compile(r"//[/!]? ?"))


def python_comments(text: str) -> list[list[tuple[int, str]]]:
    """Returns the comments and docstrings of a Python file: blocks of lines that follow each other."""
    lines, strings, is_start = [], [], True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            is_alone = not token.line[: token.start[1]].strip()
            lines.append((token.start[0], token.string, is_alone))
        elif token.type == tokenize.STRING and is_start:
            inner = token.string.strip('"').splitlines()
            width = min((len(line) - len(line.lstrip()) for line in inner[1:] if line.strip()), default=0)
            inner = inner[:1] + [line[width:] for line in inner[1:]]
            strings.append(list(enumerate(inner, token.start[0])))
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            is_start = True
        elif token.type not in (tokenize.COMMENT, tokenize.NL):
            is_start = False
    return blocks(lines, re.compile(r"#[:!]? ?")) + strings


def blocks(lines: list[tuple[int, str, bool]], marker: re.Pattern) -> list[list[tuple[int, str]]]:
    """Groups comments that stand alone on lines after each other. Another comment is a block by itself."""
    found: list[list[tuple[int, str]]] = []
    kind_before, before = "", (0, False)
    for number, text, is_alone in lines:
        kind = marker.match(text)[0].strip()
        is_next = is_alone and before == (number - 1, True) and kind == kind_before
        content = text[marker.match(text).end() :]
        if is_next:
            found[-1].append((number, content))
        else:
            found.append([(number, content)])
        kind_before, before = kind, (number, is_alone)
    return found


READERS = {".md": markdown, ".rs": rust_comments, ".py": python_comments}


def sentences(piece: Piece) -> list[Piece]:
    """Returns the sentences of a paragraph, each in one line."""
    found, begin = [], 0
    ends = [(end.start(), end.end()) for end in END.finditer(piece.text)]
    for stop, after in [*ends, (len(piece.text), len(piece.text))]:
        if ABBREVIATION.search(piece.text[begin:stop]):
            continue
        line = piece.line + piece.text.count("\n", 0, begin)
        # Quotes and brackets after the full stop belong to the sentence.
        text = " ".join(piece.text[begin:after].split())
        if text:
            found.append(Piece(line, text))
        begin = after
    return found


def tracked(*paths: str) -> list[str]:
    """Returns the files with prose below these paths that git tracks, sorted by name."""
    run = subprocess.run(
        ("git", "ls-files", "-z", "--", *paths), cwd=ROOT, check=True, capture_output=True, text=True
    )
    names = (name for name in run.stdout.split("\0") if Path(name).suffix in READERS)
    return sorted(name for name in names if (ROOT / name).is_file())


def read(name: str) -> str:
    """Returns the text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")
