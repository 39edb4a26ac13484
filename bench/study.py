#!/usr/bin/env python3
"""Runs one study: `bench/study.py NAME [OPTIONS]`. Without a name it lists the studies.

Python searches modules first in the folder of this file. A study therefore finds the packages `lib` and
`cases`.
"""

import importlib
import sys
from pathlib import Path

STUDIES = Path(__file__).parent / "studies"


def main():
    asked = sys.argv[1:2]
    if asked in ([], ["-h"], ["--help"]):
        print("usage: bench/study.py NAME [OPTIONS]; NAME --help prints the options. The studies are:\n")
        for name in names():
            print(f"  {name:14} {title_of(name)}")
    elif asked[0] in names():
        # `argparse` prints the last part of the path as the name of the program.
        sys.argv = [f"study.py {asked[0]}", *sys.argv[2:]]
        importlib.import_module(f"studies.{asked[0]}").main()
    else:
        sys.exit(f"bench/study.py: no study is named {asked[0]!r}; they are {', '.join(names())}")


def names() -> list[str]:
    return sorted(file.stem for file in STUDIES.glob("*.py") if file.stem != "__init__")


def title_of(name: str) -> str:
    """Returns the first line of a study's docstring, without its command."""
    first = (STUDIES / f"{name}.py").read_text().split('"""')[1].splitlines()[0]
    return first.split(": `bench/")[0].rstrip(".")


if __name__ == "__main__":
    main()
