#!/usr/bin/env python3
"""Shows that only comments changed between two commits: `tools/compare_tokens.py BEFORE [AFTER]`.

Compares the tokens of each Rust and Python file, without comments and doc comments. AFTER is HEAD unless
given, and `.` is the worktree. Exits 1 when other tokens differ, and names the first difference in each file.

Doc comments in files that use clap are messages, because they become `--help`. They count as tokens.
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RUST = re.compile(
    r"""
    (?P<doc>///(?!/)[^\n]*|//![^\n]*)
  | (?P<line>//[^\n]*)
  | (?P<block>/\*)
  | (?P<raw>(?:b|c|br|cr)?r(?P<hashes>\#*)"(?s:.*?)"(?P=hashes))
  | (?P<string>(?:b|c)?"(?:\\(?s:.)|[^"\\])*")
  | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^\\'\n])')
  | (?P<lifetime>'[A-Za-z_]\w*)
  | (?P<word>(?:r\#)?[A-Za-z0-9_]+)
  | (?P<space>\s+)
  | (?P<sign>.)
    """,
    re.VERBOSE,
)
RAW_START = re.compile(r'(?:b|c)?r#*"')
CLAP = re.compile(r"\bclap::|\buse clap\b|derive\([^)]*\b(?:Parser|Subcommand|Args|ValueEnum)\b")


def end_of_block(text, start):
    """Returns the end of the block comment that begins at `start`. Block comments of Rust nest."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        else:
            at += 1
    return at


def rust_tokens(text):
    """Returns the tokens of a Rust file with their lines, without comments.

    A comma before a closing bracket is left out, because rustfmt adds it when a comment makes it break a
    line.
    """
    keeps_docs = CLAP.search(text) is not None
    tokens, at, line = [], 0, 1
    while at < len(text):
        found = RUST.match(text, at)
        kind, end = found.lastgroup if found.lastgroup != "hashes" else "raw", found.end()
        if kind == "block":
            end = end_of_block(text, at)
        elif kind == "doc" and keeps_docs:
            tokens.append((" ".join(found.group().split()), line))
        elif kind not in ("doc", "line", "space"):
            if found.group() in ")]}" and tokens and tokens[-1][0] == ",":
                tokens.pop()
            tokens.append((found.group(), line))
        line += text.count("\n", at, end)
        at = end
    return tokens


def python_tokens(text):
    """Returns the tokens of a Python file with their lines, without comments and docstrings."""
    left_out = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.ENDMARKER}
    breaks = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens, is_start = [], True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and is_start:
            continue
        if token.type in breaks:
            is_start = True
        elif token.type not in left_out:
            is_start = False
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            tokens.append((tokenize.tok_name[token.type], token.start[0]))
        elif token.type not in left_out:
            tokens.append((token.string, token.start[0]))
    return tokens


READERS = {".rs": rust_tokens, ".py": python_tokens}


def first_difference(before, after):
    """Returns the first difference, as `line N: A, before B`. `None` if there is none."""
    for (old, _), (new, line) in zip(before, after, strict=False):
        if old != new:
            return f"line {line}: {new}, before {old}"
    if len(before) == len(after):
        return None
    more, what = (after, "more") if len(after) > len(before) else (before, "fewer")
    token, line = more[min(len(before), len(after))]
    return f"line {line}: {what} tokens from {token}"


def git(*arguments):
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True).stdout


def files(commit):
    names = git("ls-files") if commit == "." else git("ls-tree", "-r", "--name-only", commit)
    return {name for name in names.splitlines() if Path(name).suffix in READERS}


def text_of(commit, name):
    return (ROOT / name).read_text() if commit == "." else git("show", f"{commit}:{name}")


def changed(before, after):
    """Returns the names of the files that differ between two commits, and exist in at least one of them."""
    ends = (before,) if after == "." else (before, after)
    names = set(git("diff", "--name-only", "--no-renames", *ends).splitlines())
    return sorted(names & (files(before) | files(after)))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    options = parser.parse_args()
    old_files, new_files = files(options.before), files(options.after)
    faults = 0
    names = changed(options.before, options.after)
    for name in names:
        if name not in old_files or name not in new_files:
            fault = "the file is new" if name in new_files else "the file is gone"
        else:
            read = READERS[Path(name).suffix]
            old, new = (read(text_of(commit, name)) for commit in (options.before, options.after))
            fault = first_difference(old, new)
        if fault:
            faults += 1
            print(f"{name}: {fault}")
    print(f"{len(names)} files changed, {faults} of them in more than comments")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
