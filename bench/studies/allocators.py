"""Allocators under one binary, in speed and memory: `bench/study.py allocators [--speed | --memory]`.

Each allocator is preloaded, so that Rust, Luau and SQLite use it. Speed is the number of requests per second.
Speed is measured for a fixed reply, a script with a record, and a script that makes replies of 1 MB and 100
kB. The figures are medians of interleaved rounds. Memory is measured as in `bench/study.py memory`, with 1 MB
next to two busy loops and with 100 kB. `docs/explanation/decisions/allocator.md` has the result. Needs wrk,
gcc, libjemalloc2 and libmimalloc2.0.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

from lib.load import Wrk
from lib.servers import PEERS, PROGRAM, Instance
from lib.usage import cpu_s_of
from studies import memory

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
JEMALLOC, MIMALLOC = f"{LIBRARIES}/libjemalloc.so.2", f"{LIBRARIES}/libmimalloc.so.2.0"
CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
[stream.scores]
ack = "received"
columns = [
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "path", type = "text", from = "request.path" },
  { name = "score", type = "float", from = "record.score" },
]
[[route]]
path = "/fixed"
reply = { body = "hello" }
[[route]]
path = "/recorded"
script = "recorded.luau"
stream = "scores"
[[route]]
path = "/1MB"
script = "mb.luau"
[[route]]
path = "/100kB"
script = "kb.luau"
"""
SCRIPTS = {
    "recorded.luau": (
        "return function(req) local s = 2 * (tonumber(req.query.x) or 0) + 1 "
        "return { json = { score = s }, record = { score = s } } end"
    ),
    "mb.luau": memory.SCRIPTS["1 MB"],
    "kb.luau": memory.SCRIPTS["100 kB"],
}
LOADS = {
    "fixed": Wrk("/fixed", depth=16),
    "recorded": Wrk("/recorded?x=20", depth=16),
    "1 MB": Wrk("/1MB", connections=8),
    "100 kB": Wrk("/100kB", connections=8),
}
WAVES = [("1 MB", 2), ("100 kB", 2)]


def allocators(folder: Path) -> dict[str, dict[str, str]]:
    """Returns environments by the name of the allocator."""
    trim = folder / "trim.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", trim, PEERS / "trim.c", "-lpthread"], check=True)
    return {
        "glibc": {},
        "glibc, mapped from 128 KiB": {"MALLOC_MMAP_THRESHOLD_": "131072"},
        "glibc, mapped from 1 MiB": {"MALLOC_MMAP_THRESHOLD_": "1048576"},
        "glibc, trimmed": {"LD_PRELOAD": str(trim)},
        "glibc, mapped from 128 KiB, trimmed": {"LD_PRELOAD": str(trim), "TRIM_MMAP_THRESHOLD": "131072"},
        "jemalloc": {
            "LD_PRELOAD": JEMALLOC,
            "MALLOC_CONF": "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0",
        },
        "mimalloc": {"LD_PRELOAD": MIMALLOC},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--speed", action="store_true", help="speed alone")
    parser.add_argument("--memory", action="store_true", help="measure only memory")
    parser.add_argument(
        "--only", action="append", help="run only allocators whose name begins with this text"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tollgate-allocators-") as folder:
        every = allocators(Path(folder))
        chosen = {
            n: e
            for n, e in every.items()
            if not arguments.only or any(n.startswith(o) for o in arguments.only)
        }
        if not arguments.memory:
            tell_speed(chosen, arguments)
        if not arguments.speed:
            tell_memory(chosen)


def tell_speed(chosen: dict[str, dict[str, str]], arguments):
    figures = {(name, load): [] for name in chosen for load in LOADS}
    for _ in range(arguments.rounds):
        for load, wrk in LOADS.items():
            for name, environment in chosen.items():
                figures[name, load].append(with_environment(environment, speed, wrk, arguments.seconds))
    print("| allocator | " + " | ".join(f"{load}: requests/s, us each" for load in LOADS) + " |")
    print("|" + " --- |" * (1 + len(LOADS)))
    for name in chosen:
        cells = []
        for load in LOADS:
            rates, costs = zip(*figures[name, load], strict=True)
            cells.append(f"{statistics.median(rates):,.0f}, {statistics.median(costs):.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def speed(load: Wrk, seconds: float, program: Path = PROGRAM) -> tuple[float, float]:
    """Returns requests per second, and microseconds of the server's processor time per request."""
    with tempfile.TemporaryDirectory(prefix="tollgate-allocator-") as folder:
        server = Instance(Path(folder), CONFIGURATION, SCRIPTS, program=program)
        try:
            before = cpu_s_of([server.process.pid])
            figures = load.run(server.port, seconds)
            return figures.rate, (cpu_s_of([server.process.pid]) - before) / figures.requests * 1e6
        finally:
            server.stop()


def tell_memory(chosen: dict[str, dict[str, str]]):
    print(
        "| allocator | reply | busy loops | idle, MiB | peak above idle | 10 s after, above idle "
        "|\n| --- | --- | --- | --- | --- | --- |"
    )
    for name, environment in chosen.items():
        for case, busy in WAVES:
            amount = SimpleNamespace(clients=200, requests=2000)
            figures = with_environment(environment, memory.measure, memory.CASES[case], busy, amount)
            idle, peak, after = figures.idle_mib, figures.peak_mib, figures.after_mib
            print(
                f"| {name} | {case} | {busy} | {idle:.0f} | {peak - idle:.0f} | {after - idle:.0f} |",
                flush=True,
            )


def with_environment(environment: dict[str, str], run, *arguments):
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        return run(*arguments)
    finally:
        os.environ.clear()
        os.environ.update(before)
