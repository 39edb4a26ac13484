#!/usr/bin/env python3
"""Draws sentences to judge by the ten rules of CONTRIBUTING.md: `tools/sample_sentences.py SEED`.

Prints the same number of sentences from each group, with file and line. The groups are: ARCHITECTURE.md with
README.md, the documents, and the comments of the crates. The same seed draws the same sentences, if the files
are the same.
"""

import argparse
import random
from typing import NamedTuple

from prose import pieces_of, read, sentences, tracked

WORDS_MIN = 4


class Group(NamedTuple):
    """A group of files from which sentences are drawn together."""

    title: str
    paths: tuple[str, ...]
    ending: str


GROUPS = (
    Group("ARCHITECTURE.md and README.md", ("ARCHITECTURE.md", "README.md"), ".md"),
    Group("docs/", ("docs",), ".md"),
    Group("comments of crates/", ("crates",), ".rs"),
)


class Place(NamedTuple):
    """A sentence and where its paragraph begins."""

    name: str
    line: int
    text: str


def sentences_of(name: str, text: str) -> list[Place]:
    """Returns the sentences of a file with at least `WORDS_MIN` words."""
    found = [sentence for piece in pieces_of(name, text) for sentence in sentences(piece)]
    return [Place(name, *sentence) for sentence in found if len(sentence.text.split()) >= WORDS_MIN]


def draw(places: list[Place], count: int, seed: str) -> list[Place]:
    """Returns `count` of the sentences, or all of them if there are fewer, in the order of the files."""
    return sorted(random.Random(seed).sample(places, min(count, len(places))))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed")
    parser.add_argument("--count", type=int, default=40, help="sentences of each group")
    options = parser.parse_args()
    number = 0
    for group in GROUPS:
        names = [name for name in tracked(*group.paths) if name.endswith(group.ending)]
        places = [place for name in names for place in sentences_of(name, read(name))]
        print(f"\n## {group.title}: {options.count} of {len(places)} sentences, seed {options.seed}\n")
        for place in draw(places, options.count, options.seed):
            number += 1
            print(f"{number}. {place.name}:{place.line}: {place.text}")


if __name__ == "__main__":
    main()
