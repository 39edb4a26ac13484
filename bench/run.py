#!/usr/bin/env python3
"""Runs the cases and writes the report: `bench/run.py [--case NAME] [--before PROGRAM] [--smoke]`."""

import argparse
import dataclasses
import importlib
import tempfile
import time
from pathlib import Path

from lib import report
from lib.case import run_case
from lib.load import Oha
from lib.packages import install_oha, install_packages, tell
from lib.servers import ROOT, Tollgate, before, rate_of_loop

# The order of the report. A case is one file in `cases/`.
CASES = ["fixed", "scripted", "recorded", "latency", "events", "lines", "connections", "sizes"]
# Packages for the bare loops that are the limits, and for pinning processes to cores.
PACKAGES = {"gcc", "libc6-dev", "libsqlite3-dev", "util-linux"}


def main():
    arguments = parse()
    names = [arguments.case] if arguments.case else CASES
    cases = {name: importlib.import_module(f"cases.{name}").CASE for name in names}
    if arguments.smoke:
        cases = {name: smoke(case) for name, case in cases.items()}
    if arguments.before:
        cases = {name: beside_before(case, Path(arguments.before).resolve()) for name, case in cases.items()}
    install(cases)
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="tollgate-bench-"))
    # The user of peers that root starts.
    folder.chmod(0o755)
    begun = time.monotonic()
    limits = measure_limits(folder, arguments.seconds)
    results = {}
    for name, case in cases.items():
        tell(f"{name}: {case.title}")
        results[name] = (case, run_case(case, folder, arguments.rounds, arguments.seconds, tell))
    settings = {"rounds": arguments.rounds, "seconds": arguments.seconds, "took_s": time.monotonic() - begun}
    written = report.write(Path(arguments.out), results, limits, settings)
    tell(f"wrote {written} after {settings['took_s']:.0f} s")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument(
        "--before",
        help="another build of the program: its rows are run beside those of this one, in the same rounds",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often each row is run; medians are reported"
    )
    parser.add_argument("--seconds", type=float, default=2, help="how long one run takes")
    parser.add_argument(
        "--smoke", action="store_true", help="one load of two servers for a second: does it run?"
    )
    parser.add_argument("--out", default=str(ROOT / "target/bench/report"), help="the folder of the report")
    parser.add_argument("--folder", help="folder of the servers' files; the run measures its disk")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds, arguments.seconds = 1, 1
    return arguments


def smoke(case):
    """Returns a case with only its first load, one Tollgate server and the first peer."""
    label = next(iter(case.loads))
    peers = [server for server in case.servers if not issubclass(server, Tollgate)]
    servers = [case.servers[0], *peers[:1]]
    return dataclasses.replace(case, loads={label: case.loads[label]}, servers=servers, limit=None)


def beside_before(case, program: Path):
    """Returns the case with each Tollgate server twice: from this build and from the earlier build."""
    if not program.is_file():
        raise SystemExit(f"--before: {program} is not a file")
    twice = [
        [server, before(server, program)] if issubclass(server, Tollgate) else [server]
        for server in case.servers
    ]
    return dataclasses.replace(case, servers=[server for some in twice for server in some])


def measure_limits(folder: Path, seconds: float) -> dict[str, float]:
    """Measures bare loops on this machine, in loops or rows per second."""
    folder.mkdir(parents=True, exist_ok=True)
    base = folder / "insert.sqlite"
    base.unlink(missing_ok=True)
    return {
        report.SYNC_LOOP: rate_of_loop("sync", [str(folder / "sync"), "128", str(seconds), "append"]),
        report.INSERT_LOOP: rate_of_loop("insert", [str(base), str(seconds)], "-lsqlite3"),
    }


def install(cases: dict):
    servers = {server for case in cases.values() for server in [*case.servers, case.limit] if server}
    loads = {load for case in cases.values() for load in case.loads.values()}
    install_packages(PACKAGES.union(*(part.packages for part in [*servers, *loads])))
    if any(isinstance(load, Oha) for load in loads):
        install_oha()


if __name__ == "__main__":
    main()
