#!/usr/bin/env python3
"""Compares how fast tollgate-xml, quick-xml and libxml2 read a document of orders.

The parsers run in turns on one core. Each turn prints the best of some readings, and the table has the median
of the turns.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

PARSERS = ["tollgate", "tollgate-pieces", "libxml2", "quick-xml", "quick-xml-raw"]


def orders(count):
    """Returns a document with 11 elements and 10 attributes an order."""
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n<o:orders xmlns:o="urn:example:orders">\n']
    for number in range(count):
        parts.append(
            f'  <o:order id="{number}" date="2026-11-{number % 28 + 1:02}" region="eu" status="open">\n'
            f"    <o:customer>Customer &amp; Sons {number % 997}</o:customer>\n"
        )
        parts.extend(
            f'    <o:line article="A-{(number * 7 + line) % 10007}" count="{line + 1}">'
            f"<o:name>Article {line} of the order</o:name><o:price>{(number + line) % 500}.50</o:price></o:line>\n"
            for line in range(3)
        )
        parts.append("  </o:order>\n")
    parts.append("</o:orders>\n")
    return "".join(parts)


def run(command):
    speed, counts = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(" ", 1)
    return float(speed), counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rust", help="the program xml_speed")
    parser.add_argument("c", help="the program libxml2_speed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--readings", type=int, default=5)
    parser.add_argument("--orders", type=int, default=20_000)
    arguments = parser.parse_args()
    document = Path(arguments.rust).with_name("xml_bench.xml")
    document.write_text(orders(arguments.orders))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    speeds = {name: [] for name in PARSERS}
    expected = None
    for _ in range(arguments.rounds):
        for name in PARSERS:
            if name == "libxml2":
                command = [arguments.c, document, str(arguments.readings)]
            else:
                command = [arguments.rust, document, name, str(arguments.readings)]
            speed, counts = run(command)
            speeds[name].append(speed)
            expected = expected or counts
            # quick-xml leaves the references of texts to the caller, so the bytes of its texts differ.
            known = expected if "quick" not in name else re.match(r".*elements: \d+", expected)[0]
            if not counts.startswith(known):
                sys.exit(f"{name} read {counts}, but {PARSERS[0]} read {expected}")
    print(f"{document.stat().st_size / 1e6:.2f} MB: {expected.strip()}")
    base = statistics.median(speeds["libxml2"])
    for name, found in speeds.items():
        middle = statistics.median(found)
        print(
            f"{name:16} {middle:7.1f} MB/s ({min(found):.1f} to {max(found):.1f}), {middle / base:.2f} of libxml2"
        )


if __name__ == "__main__":
    main()
