"""Twice as many requests as the server can answer: `bench/study.py overload [--only WORK] [--queue-age AGE]`.

Clients send evenly and do not wait for replies, as independent clients do. They send at three rates. The
first is the peak, which is the rate with the most replies per second. The others are 70 % of the peak, and
twice the peak. The peak is measured before the other rates and again after them. Its value is the mean of
both runs, because the speed of a machine changes. There are two kinds of work. One is a script that computes
for some milliseconds. The other is a fixed reply, requested 16 times at once on a connection. One core cannot
send twice as many fixed requests as another core answers. For fixed replies the server therefore has a third
of its core, and two busy loops have the other two thirds. Needs gcc.

Goodput is the number of 200 replies per second. The latency of a reply counts from the moment when its
request was due. A kind of work passes if goodput stays at 0.9 of the peak and memory stays within its bounds.
Each refusal must also be a 503 with Retry-After, and no connection may break. The p99 of the script may be
three times its value at 70 %. The latency of fixed replies has no bound. A refusal costs as much as a fixed
reply. The server therefore refuses none of these requests, and clients wait for each other.

The bare epoll loop gets the same requests on a smaller share of its core, because it answers more. The loss
of this loop is the cost of thousands of busy connections in the kernel.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from lib.servers import LOAD_CORE, SERVER_CORE, Epoll, Instance, built, loops

IN_FLIGHT_MIB = 64
CONFIGURATION = f"""
[server]
listen = ["127.0.0.1:0"]
workers = 1
in_flight_bytes_max = "{IN_FLIGHT_MIB}MiB"
queue_age_max = "@AGE@"
[[route]]
path = "/script"
script = "work.luau"
[[route]]
path = "/fixed"
reply = {{ body = "hello" }}
"""
SCRIPTS = {
    "work.luau": "return function() local x = 0 for i = 1, 240000 do x = (x + i * i) % 7 end return tostring(x) end",
}


@dataclass(frozen=True)
class Work:
    """The requests of a client: `depth` at once. The last of them is answered last."""

    path: str
    depth: int
    #: Number of connections that keep the worker busy all the time.
    peak_clients: int
    #: Processes that use the core of the server all the time.
    rivals: int
    #: Bound of the p99, as a multiple of the p99 at 70 %. `None` if clients wait for each other.
    slower_max: float | None
    #: Milliseconds by which a client may send its requests late, at most. This bound checks that the rate
    #: stays twice the peak even if the latency has no bound.
    behind_ms_max: float

    def clients_wait(self) -> bool:
        """Whether clients wait for each other. At twice the peak, all of them wait at some time."""
        return self.slower_max is None

    def requests(self) -> bytes:
        return f"GET {self.path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * self.depth


WORKS = {"script": Work("/script", 1, 3, 0, 3, 100), "fixed": Work("/fixed", 16, 64, 2, None, 1000)}
BARE = replace(WORKS["fixed"], rivals=4)
QUEUE_AGES = ["1s", "20ms"]
CLIENTS_MAX = 8000
#: Rates to try, as shares of the rate of a few clients in a closed loop.
PEAK_SHARES = [0.8, 0.9, 1, 1.1]
#: KiB of a connection that are not counted in flight.
CONNECTION_KIB = 8


@dataclass(frozen=True)
class Outcome:
    """The results of requests. A request after the last reply of its connection counts as refused."""

    in_time: int
    taken: int
    refused: int
    bare: int
    others: int
    broken: int
    unsent: int
    behind_ms: float
    p99_ms: float

    @classmethod
    def read(cls, text: str) -> "Outcome":
        *counts, behind_ms, p99_ms = text.split()
        return cls(*map(int, counts), float(behind_ms), float(p99_ms))

    def failures(self, work) -> list[str]:
        counts = {
            "503 without Retry-After": self.bare,
            "other replies": self.others,
            "broken connections": self.broken,
            "turns of requests without a client left": 0 if work.clients_wait() else self.unsent,
        }
        return [f"{count} {what}" for what, count in counts.items() if count]


class Offer:
    """Clients on the other core (`bench/peers/offer.c`) that request one kind of work from one server."""

    def __init__(self, server, work, folder):
        self.server, self.work = server, work
        self.file = Path(folder) / "requests"
        self.file.write_bytes(work.requests())
        self.memory_mib_max = 0.0

    def run(self, rate, seconds) -> Outcome:
        """Sends this number of requests per second, or as many as are answered (0)."""
        clients = CLIENTS_MAX if rate else self.work.peak_clients
        arguments = [self.server.port, self.file, self.work.depth, clients, rate, seconds]
        command = ["taskset", "-c", LOAD_CORE, built("offer"), *arguments]
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
            while process.poll() is None:
                self.memory_mib_max = max(self.memory_mib_max, self.server.memory_mib())
                time.sleep(0.2)
            return Outcome.read(process.stdout.read())

    def row(self, title, rate, seconds) -> Outcome:
        outcome = self.run(rate, seconds)
        print(
            f"| {title} | {rate:.0f} | {outcome.in_time / seconds:.0f} | "
            f"{outcome.refused / seconds:.0f} | {outcome.p99_ms:.1f} ms "
            f"| {outcome.unsent * self.work.depth / seconds:.0f} | {outcome.broken} | {self.memory_mib_max:.0f} MiB |",
            flush=True,
        )
        return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=60, help="of twice the peak; the rest takes a third of it each"
    )
    parser.add_argument("--only", choices=WORKS)
    parser.add_argument(
        "--queue-age", help="queue_age_max of the server; 1s, its default, and 20ms otherwise"
    )
    arguments = parser.parse_args()
    failures = []
    for name, work in WORKS.items():
        for age in [arguments.queue_age] if arguments.queue_age else QUEUE_AGES:
            if arguments.only in (None, name):
                failures += [f"{name}, {age}: {failure}" for failure in run(work, age, arguments.seconds)]
    if arguments.only in (None, "fixed"):
        run_bare(arguments.seconds)
    sys.exit("\n".join(failures) or None)


def run(work, age, seconds):
    with tempfile.TemporaryDirectory(prefix="tollgate-overload-") as folder, rivals_of(work):
        server = Instance(Path(folder), CONFIGURATION.replace("@AGE@", age), SCRIPTS)
        print(f"\n{work.path}, queue_age_max {age}\n")
        try:
            return judge(measure(server, work, folder, seconds), work)
        finally:
            server.stop()


def run_bare(seconds):
    with tempfile.TemporaryDirectory(prefix="tollgate-overload-") as folder, rivals_of(BARE):
        server = Epoll(Path(folder))
        # The server runs in the same session as its rivals, because the system first shares a core between
        # sessions.
        server.process = subprocess.Popen(["taskset", "-c", SERVER_CORE, *server.command()])
        print(f"\n{server.name}\n")
        try:
            while not server.answers():
                time.sleep(0.02)
            measure(server, BARE, folder, seconds)
        finally:
            server.process.kill()
            server.process.wait()


def rivals_of(work):
    """Processes that use the core of the server all the time."""
    return loops([SERVER_CORE] * work.rivals)


def peak_of(offer, seconds):
    """Returns the maximum rate of replies. The search is around the rate of clients in a closed loop."""
    seconds /= 1 + len(PEAK_SHARES)
    closed = offer.run(0, seconds).in_time / seconds
    return max(offer.run(share * closed, seconds).in_time / seconds for share in PEAK_SHARES)


@dataclass(frozen=True)
class Measured:
    usual: Outcome
    twice: Outcome
    #: Goodput at twice the peak, as a share of the peak.
    goodput: float
    grown_mib: float

    def slower(self) -> float:
        return self.twice.p99_ms / self.usual.p99_ms


def measure(server, work, folder, seconds) -> Measured:
    offer, before_mib = Offer(server, work, folder), server.memory_mib()
    print(
        "| offered | requests/s | goodput/s | refused/s | p99 of the accepted | unsent/s | broken | memory |"
    )
    print(f"|{' --- |' * 8}")
    before = peak_of(offer, seconds / 3)
    usual = offer.row("70 % of the peak", 0.7 * before, seconds / 3)
    twice = offer.row("twice the peak", 2 * before, seconds)
    peak = (before + peak_of(offer, seconds / 3)) / 2
    measured = Measured(usual, twice, twice.in_time / seconds / peak, offer.memory_mib_max - before_mib)
    print(
        f"\npeak {peak:.0f}/s; at twice that goodput is {measured.goodput:.2f} of it, p99 {measured.slower():.1f}x",
        flush=True,
    )
    return measured


def judge(measured, work) -> list[str]:
    twice = measured.twice
    if twice.behind_ms > work.behind_ms_max:
        return [
            f"the clients were {twice.behind_ms:.0f} ms behind themselves: this says nothing of the server"
        ]
    failures = twice.failures(work)
    if measured.goodput < 0.9:
        failures.append(f"goodput {measured.goodput:.2f} of the peak")
    if not work.clients_wait() and measured.slower() > work.slower_max:
        failures.append(f"p99 {measured.slower():.1f}x that at 70 %")
    bound_mib = IN_FLIGHT_MIB + CLIENTS_MAX * CONNECTION_KIB / 1024
    if measured.grown_mib > bound_mib:
        failures.append(f"memory grew by {measured.grown_mib:.0f} MiB, bound {bound_mib:.0f} MiB")
    return failures
