"""Builds of the program compared, such as the static one: `bench/study.py builds PROGRAM PROGRAM...`.

Each round runs each load with each program in turn. The loads are those of `bench/study.py allocators`. The
figures are medians of the rounds: requests per second, microseconds of processor time per request, and the
ratio of this time to the time of the first program, with its lowest and highest value. Needs wrk.
"""

import argparse
import statistics
from pathlib import Path

from studies.allocators import LOADS, speed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    programs = [program.resolve() for program in arguments.programs]
    figures = {(program, load): [] for program in programs for load in LOADS}
    for _ in range(arguments.rounds):
        for load, wrk in LOADS.items():
            for program in programs:
                figures[program, load].append(speed(wrk, arguments.seconds, program))
    print("| program | " + " | ".join(f"{load}: requests/s, us each" for load in LOADS) + " |")
    print("|" + " --- |" * (1 + len(LOADS)))
    for program in programs:
        cells = [cell(figures[program, load], figures[programs[0], load]) for load in LOADS]
        print(f"| {program} | " + " | ".join(cells) + " |", flush=True)


def cell(rounds: list[tuple[float, float]], rounds_of_first: list[tuple[float, float]]) -> str:
    """Returns the medians of a program, and the ratio of its processor time to the first program's."""
    rates, costs = zip(*rounds, strict=True)
    ratios = sorted(cost / first for cost, (_, first) in zip(costs, rounds_of_first, strict=True))
    ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    return f"{statistics.median(rates):,.0f}, {statistics.median(costs):.2f}, {ratio}"


if __name__ == "__main__":
    main()
