"""The cost of a scripted call and of each API function, in time and instructions: `bench/study.py calls`.

Prints tables in Markdown. Instructions are the difference between a run with few calls and a run with many,
so that the start does not count. For a function, the instructions of an empty loop are also subtracted. The
time is the best of seven rounds. On a busy machine only the instructions are meaningful. Needs valgrind.
"""

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path

from lib.callgrind import total_of_run
from lib.facts import constant
from lib.servers import ROOT

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SPEED = TARGET / "release/examples/call_speed"
#: Number of times that a handler of the example repeats a function.
REPEATED = constant("call_speed/work.rs", "REPEATED", "u32")


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    build = ["cargo", "build", "--release", "--locked", "-p", "tollgate-script", "--example", "call_speed"]
    subprocess.run(build, cwd=ROOT, check=True)
    times = times_of(printed())
    print("| handler | ns | instructions |\n| --- | --- | --- |")
    for name, body in bodies("handlers")[1:]:
        print(f"| `{name}` | {times[name]:,} | {instructions(body, 200, 1200):,.0f} |")
    (_, nothing), *functions = bodies("functions")
    loop = instructions(nothing, 4, 14)
    print("\n| function | ns | instructions |\n| --- | --- | --- |")
    for name, body in functions:
        count = (instructions(body, 4, 14) - loop) / REPEATED
        print(f"| `{name.split(';; ')[-1]}` | {times[name]:,} | {count:,.0f} |")


def printed(*arguments: str) -> str:
    return subprocess.run([SPEED, *arguments], capture_output=True, text=True, check=True).stdout


def times_of(text: str) -> dict[str, int]:
    return {name: int(ns) for ns, name in re.findall(r"^ *(\d+)  (.+)$", text, re.MULTILINE)}


def bodies(what: str) -> list[tuple[str, str]]:
    return [tuple(line.split("\t")) for line in printed("list", what).splitlines()]


def instructions(body: str, few: int, many: int) -> float:
    """Instructions of one call."""
    return (collected(body, many) - collected(body, few)) / (many - few)


def collected(body: str, calls: int) -> int:
    with tempfile.TemporaryDirectory(prefix="tollgate-calls-") as folder:
        callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        run = subprocess.run(
            [*callgrind, SPEED, "calls", str(calls), body], capture_output=True, text=True, check=True
        )
    return total_of_run(run.stderr)
