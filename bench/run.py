#!/usr/bin/env python3
"""Runs the cases and writes the report: `bench/run.py [--case NAME] [--rounds N] [--seconds S] [--smoke]`."""

import argparse
import dataclasses
import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import report
from case import run_case
from load import Oha
from servers import BENCH, ROOT, Tollgate, rate_of_loop

# In the order of the report. A case is one file in `cases/`.
CASES = ["fixed", "scripted", "recorded", "latency", "events", "lines", "connections", "sizes"]
DEBIAN_PACKAGES = "nginx-light libnginx-mod-http-lua lighttpd lighttpd-modules-lua yaws h2o wrk apache2-utils libsqlite3-dev"
PROGRAMS = ["nginx", "lighttpd", "h2o", "yaws", "wrk", "ab", "taskset"]


def main():
    arguments = parse()
    names = [arguments.case] if arguments.case else CASES
    cases = {name: importlib.import_module(f"cases.{name}").CASE for name in names}
    check_programs(cases)
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="tollgate-bench-"))
    # Peers that are started as root give themselves another user.
    folder.chmod(0o755)
    begun = time.monotonic()
    results = {}
    for name, case in cases.items():
        if arguments.smoke:
            case = smoke(case)
        tell(f"{name}: {case.title}")
        results[name] = (case, run_case(case, folder, arguments.rounds, arguments.seconds, tell))
    limits = measure_limits(folder, arguments.seconds)
    settings = {"rounds": arguments.rounds, "seconds": arguments.seconds, "took_s": time.monotonic() - begun}
    written = report.write(Path(arguments.out), results, limits, settings)
    tell(f"wrote {written} after {settings['took_s']:.0f} s")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--rounds", type=int, default=3, help="how often each row is run; medians are reported")
    parser.add_argument("--seconds", type=float, default=3, help="how long one run takes")
    parser.add_argument("--smoke", action="store_true", help="one load of two servers for a second: does it run?")
    parser.add_argument("--out", default=str(ROOT / "target/bench/report"), help="the folder of the report")
    parser.add_argument("--folder", help="where servers keep their files: its disk is what is measured")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds, arguments.seconds = 1, 1
    return arguments


def smoke(case):
    """The first load, on our server and the first peer."""
    label = next(iter(case.loads))
    peers = [server for server in case.servers if not issubclass(server, Tollgate)]
    servers = [case.servers[0], *peers[:1]]
    return dataclasses.replace(case, loads={label: case.loads[label]}, servers=servers, limit=None)


def measure_limits(folder: Path, seconds: float) -> dict[str, float]:
    folder.mkdir(parents=True, exist_ok=True)
    base = folder / "insert.sqlite"
    base.unlink(missing_ok=True)
    return {
        "write + fdatasync of 128 bytes, one after the other, times a second":
            rate_of_loop("sync", [str(folder / "sync"), "128", str(seconds)]),
        "prepared INSERT into SQLite, a thousand to a transaction, rows a second":
            rate_of_loop("insert", [str(base), str(seconds)], "-lsqlite3"),
    }


def check_programs(cases: dict):
    """Installs what is missing, as root; tells others how it is had."""
    found = lambda program: subprocess.run(["which", program], capture_output=True, check=False).returncode == 0
    missing = [program for program in PROGRAMS if not found(program)]
    oha = ROOT / "target/bench/oha"
    if missing and os.geteuid() == 0:
        tell(f"installing {DEBIAN_PACKAGES}")
        subprocess.run([str(BENCH / "install")], check=True, stdout=subprocess.DEVNULL)
    elif missing:
        sys.exit(f"missing: {', '.join(missing)}; install as root: apt-get install {DEBIAN_PACKAGES}")
    needs_oha = any(isinstance(load, Oha) for case in cases.values() for load in case.loads.values())
    if needs_oha and not (oha / "bin/oha").exists():
        tell(f"building oha into {oha}")
        subprocess.run(Oha.install + [str(oha)], check=True, capture_output=True)


def tell(text: str):
    print(text, flush=True)


if __name__ == "__main__":
    main()
