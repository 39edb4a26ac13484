"""RELAX NG validation by Tollgate, Woodstox with MSV, and xmllint: `bench/study.py relaxng`.

The document has 20,000 orders. Each round runs all programs one after another. The Java program warms for
fifteen seconds in each round. The figures are megabytes of the document for each second, from the best time
of each program, because other work on the machine only makes a run slower. Needs Maven, Java and xmllint.
"""

import argparse
import os
import random
import resource
import subprocess
import tempfile
from pathlib import Path

from lib.servers import ROOT

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PEER = ROOT / "bench/peers/woodstox"
JARS = TARGET / "tools/woodstox-7.1.1"
ORDERS = 20_000
CITIES = ("Berlin", "Paris", "Lisboa", "Wien", "Oslo", "Helsinki")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=15, help="seconds that the Java program warms")
    arguments = parser.parse_args()
    build = ["cargo", "build", "--release", "--locked", "-p", "tollgate-validate", "--example", "validate"]
    subprocess.run(build, cwd=ROOT, check=True)
    install_jars()
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "orders.xml"
        document.write_text(orders())
        size = document.stat().st_size
        best = {}
        for _ in range(arguments.rounds):
            for name, times in runs(document, arguments.warm).items():
                best[name] = min(times, best.get(name, times))
    print(f"{size / 1e6:.2f} MB, best of {arguments.rounds} rounds\n")
    print("| program | reads, MB/s | reads and validates, MB/s |\n| --- | --- | --- |")
    for name, (alone, both) in best.items():
        print(f"| {name} | {size / alone * 1e3:.0f} | {size / both * 1e3:.0f} |")


def runs(document, warm):
    """Returns the best times of each program in nanoseconds: reading alone, and with validation."""
    ours = [TARGET / "release/examples/validate", PEER / "orders.rnc", document, "20"]
    java = ["java", "-XX:+UseSerialGC", "-cp", f"{JARS}/*", PEER / "Peer.java", PEER / "orders.rng", document]
    return {
        "Tollgate": best_of(ours),
        "Woodstox with MSV, warm": best_of([*java, "20", str(warm)]),
        "xmllint --stream": (
            user_time(["xmllint", "--noout", "--stream", document]),
            user_time(["xmllint", "--noout", "--stream", "--relaxng", PEER / "orders.rng", document]),
        ),
    }


def best_of(command):
    """Returns the smallest times in the lines of a program: round, bytes, alone, both."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [[int(number) for number in line.split()] for line in output.splitlines()]
    return min(line[2] for line in lines), min(line[3] for line in lines)


def user_time(command):
    """Returns the processor time of a program in nanoseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return int((resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) * 1e9)


def install_jars():
    if JARS.exists():
        return
    copy = [
        "mvn",
        "-q",
        "-B",
        "-f",
        PEER / "pom.xml",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={JARS}",
    ]
    subprocess.run(copy, check=True)


def orders():
    """Returns a document with three lines in each order: 11 elements and 10 attributes."""
    chosen = random.Random(7)
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n<orders xmlns="urn:example:orders">\n']
    for index in range(ORDERS):
        date = f"2026-{1 + index % 12:02}-{1 + index % 28:02}"
        currency = ("EUR", "USD", "CHF")[index % 3]
        name = f"Customer number {index % 977} of the northern region"
        city = f"{CITIES[index % len(CITIES)]} an der langen Strasse"
        parts.append(f'  <order id="{100_000 + index}" date="{date}" currency="{currency}">\n')
        parts.append(
            f'    <customer ref="C{index % 977:05}"><name>{name}</name><city>{city}</city></customer>\n'
        )
        for _ in range(3):
            sku, quantity = f"SKU-{chosen.randrange(10**6):06}", chosen.randrange(1, 50)
            price = f"{chosen.randrange(1, 10**5) / 100:.2f}"
            parts.append(f'    <line sku="{sku}" quantity="{quantity}"><price>{price}</price></line>\n')
        parts.append(f"    <total>{chosen.randrange(1, 10**6) / 100:.2f}</total>\n  </order>\n")
    parts.append("</orders>\n")
    return "".join(parts)


if __name__ == "__main__":
    main()
