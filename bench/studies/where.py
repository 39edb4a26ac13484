"""The processor time of one recorded request, by use: `bench/study.py where [--out FILE.svg]`, as root.

Samples the server by perf under the loads of the case `recorded`. Sorts each sample by thread, system call or
function, and draws one bar for each load. Needs Debian's package linux-perf.
"""

import argparse
import re
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path

from lib import svg
from lib.load import Wrk
from lib.servers import ROOT, tollgate
from lib.usage import process_tree

LOADS = {"64 connections": Wrk("/recorded?x=20"), "pipelined 16 deep": Wrk("/recorded?x=20", depth=16)}
ACKS = ["written", "synced"]

# The first pattern that matches decides. Kernel stacks are sorted by their system call. Code of Tollgate is
# sorted by its function, because perf has no call frames of it. An inline function counts for the function
# around it.
THREADS = [("log", r"log-"), ("the ticks of scripts", r"tollgate-tick")]
CALLS = [
    ("kernel: send", r"sys_sendto|sys_writev"),
    ("kernel: receive", r"sys_recvfrom"),
    ("kernel: wait and wake", r"sys_epoll_wait|sys_futex|sys_write\b|schedule"),
]
FUNCTIONS = [
    (
        "script",
        r"^lua|^Luau|luau|mlua|tollgate_script|\(lua_State|strtod|^newblock|^freeblock|^callTM|propagatemark|sweepgc",
    ),
    (
        "request head and route",
        r"tollgate_http::(request|field|authority|target|path|grammar|query|framing|connection|span)|route|Worker::receive|next_request|memchr|CharSearcher|from_utf8",
    ),
    ("record", r"tollgate_log|recorder|transaction|Endpoint::record|ScriptRecord|crc32c"),
    ("reply head", r"tollgate_http::reply|write_reply|itoa|push_field"),
    ("clocks", r"vdso|clock_gettime|Timespec|Instant"),
    ("memory: allocation and copies", r"malloc|free|memmove|memcpy|realloc|calloc"),
    ("connection and runtime", r"."),
]
ORDER = [name for name, _ in [*CALLS, *FUNCTIONS, *THREADS]] + ["kernel: else"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--out", default=str(ROOT / "target/bench/where.svg"))
    arguments = parser.parse_args()
    bars = {}
    for label, load in LOADS.items():
        for ack in ACKS:
            shares, cpu_us = sample(tollgate(ack), load, arguments.seconds)
            parts = [(name, shares[name] * cpu_us) for name in ORDER if shares[name] > 0]
            bars[f"{label}, {ack}"] = parts
            print(f"{label}, {ack}: {cpu_us:.2f} us a request")
            for name, us in parts:
                print(f"  {us:6.2f} us  {us / cpu_us:4.0%}  {name}")
    Path(arguments.out).write_text(svg.stacks("Processor time of one recorded request", "us", bars))


def sample(server_class, load, seconds: float) -> tuple[Counter, float]:
    """Shares of the server's processor time, and its microseconds per request."""
    with tempfile.TemporaryDirectory(prefix="tollgate-where-") as folder:
        Path(folder).chmod(0o755)
        server = server_class(Path(folder) / "server")
        server.start()
        try:
            load.run(server.port, 1)
            before = server.cpu_s()
            samples = Path(folder) / "perf.data"
            perf = threading.Thread(
                target=record, args=(process_tree(server.process.pid), samples, seconds - 1)
            )
            perf.start()
            figures = load.run(server.port, seconds)
            cpu_us = (server.cpu_s() - before) / figures.requests * 1e6
            perf.join()
        finally:
            server.stop()
        return classified(samples), cpu_us


def record(pids: list[int], samples: Path, seconds: float):
    command = [
        "perf",
        "record",
        "-F",
        "2999",
        "-g",
        "-p",
        ",".join(map(str, pids)),
        "-o",
        str(samples),
        "--",
        "sleep",
        str(seconds),
    ]
    subprocess.run(command, check=True, capture_output=True)


def classified(samples: Path) -> Counter:
    command = ["perf", "script", "-i", str(samples), "-F", "comm,ip,sym,dso"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = Counter(place(*stack.split("\n", 1)) for stack in text.strip().split("\n\n"))
    total = sum(counts.values())
    return Counter({name: count / total for name, count in counts.items()})


def place(thread: str, frames: str) -> str:
    for name, pattern in THREADS:
        if re.search(pattern, thread):
            return name
    leaf = frames.split("\n", 1)[0]
    if "[kernel" in leaf or "[guest.kernel" in leaf:
        return first(CALLS, frames) or "kernel: else"
    function = re.sub(r"^\s*[0-9a-f]+\s+", "", leaf)
    return first(FUNCTIONS, function) or "connection and runtime"


def first(rules, text: str) -> str | None:
    return next((name for name, pattern in rules if re.search(pattern, text)), None)
