#!/usr/bin/env python3
"""Counts phrases that rule 10 of CONTRIBUTING.md avoids: `tools/check_phrases.py [--list PATH] [--shrink]`.

Looks at Markdown and at comments of Rust and Python. Each folder has a bound in `phrases.toml`, and the check
fails above it. `--list` prints the places below a path. `--shrink` lowers the bounds to the present counts.
Bounds never grow. Words in quotes or backticks do not count, because the text is about them.
"""

import argparse
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from prose import ROOT, pieces_of, read, tracked

BOUNDS = ROOT / "tools/phrases.toml"

#: Phrases to avoid, each with its replacement.
PHRASES = {
    r"whoever|nobody|anybody|somebody": "name the subject",
    r"those (?:that|who)|one that|that of|those of": "name the thing again",
    r"(?:was|were) left(?=[.,;]|$)": "was not done",
    r"go(?:es)? by|went by": "uses",
    r"at one stroke": "in one call",
    r"all the same": "nevertheless",
    r"for good": "permanently",
    r"tells|told|hears|heard": "reports, returns, logs, gets",
    r"holds? good|(?:is|are) held to be": "is true; is treated as",
    r"by that|of ours|of theirs|that it is": "say it in full",
    r"comes to|came to": "results in",
    r"so (?:many|much|long|few)(?! that| as)": "call the number by its name",
    r"doors?|guests?|crowds?|desks?|shel(?:f|ves)|errands?|rooms?|knobs?|lanes?": "the term of the field",
}
WORDS = re.compile(r"\b(?:" + "|".join(f"(?:{phrase})" for phrase in PHRASES) + r")\b", re.IGNORECASE)
#: Pattern of names, and of words that the text is about.
MENTIONED = re.compile(r"`[^`]*`|\"[^\"]{1,60}\"", re.DOTALL)
#: Uses of these phrases that are allowed, with the reason.
ALLOWED = (
    r"how (?:it )?came to be",  # the origin of a thing, not a sum
    r"chat rooms?",  # the subject of the example
)


class Place(NamedTuple):
    """A phrase with its file and line."""

    name: str
    line: int
    phrase: str


def phrases_of(name: str, text: str) -> list[Place]:
    """Returns the phrases to avoid in the prose of a file."""
    found = []
    for piece in pieces_of(name, text):
        prose = MENTIONED.sub(lambda mentioned: "\n" * mentioned[0].count("\n") + "~", piece.text)
        for allowed in ALLOWED:
            prose = re.sub(allowed, "~", prose, flags=re.IGNORECASE)
        flat = prose.replace("\n", " ")
        for hit in WORDS.finditer(flat):
            found.append(Place(name, piece.line + prose.count("\n", 0, hit.start()), hit[0]))
    return found


def owner(name: str) -> str:
    """Returns the name of the bound for a file: a crate or a first folder. A file at the root has its own."""
    parts = Path(name).parts
    return "/".join(parts[:2]) if parts[0] == "crates" else parts[0]


def faults(counts: Counter, bounds: dict[str, int]) -> list[str]:
    """Returns a line for each folder that has more than its bound. A folder without a bound may have no
    phrases."""
    over = [name for name in sorted(counts) if counts[name] > bounds.get(name, 0)]
    return [f"{name}: {counts[name]} phrases to avoid, at most {bounds.get(name, 0)}" for name in over]


def shrunk(counts: Counter, bounds: dict[str, int]) -> dict[str, int]:
    """Returns the bounds lowered to the counts, without folders that have none."""
    lower = {name: min(bound, counts[name]) for name, bound in bounds.items()}
    return {name: bound for name, bound in sorted(lower.items()) if bound > 0}


def written(bounds: dict[str, int]) -> str:
    """Returns the text of the file of bounds."""
    head = "# Phrases that rule 10 of CONTRIBUTING.md avoids, for each folder at most. May only shrink:\n"
    head += "# `tools/check_phrases.py --shrink` lowers these bounds.\n\n"
    return head + "".join(f'"{name}" = {bound}\n' for name, bound in bounds.items())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", metavar="PATH", help="print the phrases below this path")
    parser.add_argument("--shrink", action="store_true", help="lower the bounds to the present counts")
    options = parser.parse_args()
    names = tracked(*([options.list] if options.list else []))
    places = [place for name in names for place in phrases_of(name, read(name))]
    if options.list:
        for place in places:
            print(f"{place.name}:{place.line}: {place.phrase}")
        return
    counts = Counter(owner(place.name) for place in places)
    bounds = tomllib.loads(BOUNDS.read_text())
    if options.shrink:
        BOUNDS.write_text(written(shrunk(counts, bounds)))
    found = faults(counts, bounds)
    for fault in found:
        print(fault, file=sys.stderr)
    if found:
        print("`tools/check_phrases.py --list PATH` names the places.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
