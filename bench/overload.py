#!/usr/bin/env python3
"""More work than the server can do, and what becomes of it: `bench/overload.py [--seconds S] [--only WORK] [--queue-age AGE]`.

A worker is asked as fast as it answers (the peak), at 70 % of that, and at twice that, evenly and without waiting for replies, as
independent clients ask: by a script that computes for some milliseconds, and for a fixed reply, by requests that are long to read and come 64 to a
connection at once, because one core cannot send twice as many as another one can answer otherwise. Goodput is replies of 200 a second; their latency
counts from the moment when they were to be sent. It holds if goodput stays at 0.9 of the peak, the p99 of what is taken at three times that at 70 %,
memory within what the server is told to hold, every refusal is a 503 with Retry-After, and no connection breaks. That of the latency is asked where
`queue_age_max` is short: a queue that may be a second old is no faster than that.
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from servers import LOAD_CORE, Instance

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
    """What a client asks for: so many requests at once, the last of which is answered last."""

    path: str
    fields: int
    depth: int
    #: Connections that keep the worker busy all the time.
    peak_clients: int

    def requests(self) -> bytes:
        fields = "".join(f"X-Field-{number}: {'abcdefgh' * 15}\r\n" for number in range(self.fields))
        return f"GET {self.path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode() * self.depth


WORKS = {"script": Work("/script", 0, 1, 32), "fixed": Work("/fixed", 90, 64, 8)}
QUEUE_AGES = ["1s", "20ms"]
#: Where the queue may be older, the latency of what is taken is the operator's wish.
QUEUE_AGE_SHORT = "20ms"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
CONNECTIONS_MAX = 8000
#: How late a request may be sent.
BEHIND_S_MAX = 0.1
#: What a connection takes beside what is counted in flight.
CONNECTION_KIB = 8


class Client(asyncio.Protocol):
    """One connection with one turn of requests at a time."""

    def __init__(self, run):
        self.run = run
        self.came = b""
        self.due = None
        self.is_over = False

    def connection_made(self, transport):
        self.transport = transport

    def ask(self, due):
        self.due, self.came = due, b""
        self.transport.write(self.run.requests)

    def data_received(self, data):
        self.came += data
        statuses = STATUS.findall(self.came)
        last_head, blank, content = self.came[self.came.rfind(b"HTTP/1.1 "):].partition(b"\r\n\r\n")
        if not blank:
            return
        fields = dict(line.lower().split(b": ", 1) for line in last_head.split(b"\r\n")[1:])
        self.is_over = fields.get(b"connection") == b"close"
        is_last = self.is_over or len(statuses) == self.run.work.depth
        if is_last and len(content) >= int(fields[b"content-length"]):
            due, self.due = self.due, None
            # None answers what came behind a reply that is the last of its connection.
            statuses += [statuses[-1]] * (self.run.work.depth - len(statuses))
            self.run.done(self, statuses, self.came.lower().count(b"retry-after: "), time.monotonic() - due)

    def connection_lost(self, _):
        self.run.lost(self)


class Run:
    """What was answered, and what was not."""

    def __init__(self, server, work):
        self.server, self.work, self.requests = server, work, work.requests()
        self.memory_mib_max = 0.0
        self.idle = deque()
        self.open = 0
        self.latencies, self.refused, self.wrong, self.broken = [], 0, [], 0
        self.behind_max = 0.0
        self.ends_at, self.in_time = 0.0, 0

    def done(self, client, statuses, retry_after_count, latency):
        taken, refused = statuses.count(b"200"), statuses.count(b"503")
        if taken:
            self.latencies += [latency] * taken
            self.in_time += taken * (time.monotonic() <= self.ends_at)
        if refused and not retry_after_count:
            self.wrong.append("503 without Retry-After")
        self.refused += refused
        self.wrong += [status.decode() for status in statuses if status not in (b"200", b"503")]
        if not client.is_over:
            self.idle.append(client)
            self.answered(client)

    def answered(self, client):
        pass

    def lost(self, client):
        self.open -= 1
        if client.due is not None:
            self.broken += 1
        elif client in self.idle:
            self.idle.remove(client)

    async def connect(self):
        self.open += 1
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: Client(self), "127.0.0.1", self.server.port)
        return client

    async def saturate(self, seconds):
        """As fast as it answers."""
        end = self.ends_at = time.monotonic() + seconds
        self.answered = lambda client: client.ask(time.monotonic()) if time.monotonic() < end else None
        for _ in range(self.work.peak_clients):
            (await self.connect()).ask(time.monotonic())
        await asyncio.sleep(seconds + 0.2)
        return self

    async def offer(self, rate, seconds):
        """So many requests a second, whatever becomes of those before."""
        watch = asyncio.create_task(self.watch_memory())
        begun = time.monotonic()
        self.ends_at = begun + seconds
        turns_s = rate / self.work.depth
        for number in range(int(turns_s * seconds)):
            due = begun + number / turns_s
            # What came is looked at also by who is behind.
            await asyncio.sleep(max(0, due - time.monotonic()))
            self.behind_max = max(self.behind_max, time.monotonic() - due)
            if self.idle:
                self.idle.popleft().ask(due)
            elif self.open < CONNECTIONS_MAX:
                (await self.connect()).ask(due)
            else:
                self.broken += 1
        await asyncio.sleep(1)
        watch.cancel()
        return self

    async def watch_memory(self):
        while True:
            self.memory_mib_max = max(self.memory_mib_max, self.server.memory_mib())
            await asyncio.sleep(0.2)

    def p99_ms(self):
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)] * 1000 if self.latencies else float("nan")

    def row(self, title, rate, seconds):
        goodput = self.in_time / seconds
        print(
            f"| {title} | {rate:.0f} | {goodput:.0f} | {self.refused / seconds:.0f} | {self.p99_ms():.1f} ms | {self.broken} "
            f"| {self.memory_mib_max:.0f} MiB |", flush=True,
        )
        return goodput


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", choices=WORKS)
    parser.add_argument("--queue-age", help="queue_age_max of the server; 1s, its default, and 20ms otherwise")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    failures = []
    for name, work in WORKS.items():
        for age in [arguments.queue_age] if arguments.queue_age else QUEUE_AGES:
            if arguments.only in (None, name):
                failures += [f"{name}, {age}: {failure}" for failure in run(work, age, arguments.seconds)]
    sys.exit("\n".join(failures) or None)


def run(work, age, seconds):
    with tempfile.TemporaryDirectory(prefix="tollgate-overload-") as folder:
        server = Instance(Path(folder), CONFIGURATION.replace("@AGE@", age), SCRIPTS)
        try:
            return measure(server, work, age, seconds)
        finally:
            server.stop()


def measure(server, work, age, seconds):
    before_mib = server.memory_mib()
    print(f"\n{work.path}, queue_age_max {age}\n")
    print("| offered | requests/s | goodput/s | refused/s | p99 of the accepted | broken | memory |")
    print(f"|{' --- |' * 7}")
    peak = asyncio.run(Run(server, work).saturate(seconds)).in_time / seconds
    usual = asyncio.run(Run(server, work).offer(0.7 * peak, seconds))
    usual.row("70 % of the peak", 0.7 * peak, seconds)
    twice = asyncio.run(Run(server, work).offer(2 * peak, seconds))
    goodput = twice.row("twice the peak", 2 * peak, seconds)
    slower = twice.p99_ms() / usual.p99_ms()
    print(f"\npeak {peak:.0f}/s; at twice that goodput is {goodput / peak:.2f} of it, p99 {slower:.1f}x", flush=True)
    if twice.behind_max > BEHIND_S_MAX:
        return [f"the clients were {twice.behind_max * 1000:.0f} ms behind themselves: this says nothing of the server"]
    failures = []
    if goodput < 0.9 * peak or twice.broken or twice.wrong:
        failures.append(f"goodput {goodput / peak:.2f} of the peak, broken {twice.broken}, other replies {sorted(set(twice.wrong))}")
    if age == QUEUE_AGE_SHORT and slower > 3:
        failures.append(f"p99 {slower:.1f}x that at 70 %")
    grown_mib, bound_mib = twice.memory_mib_max - before_mib, IN_FLIGHT_MIB + CONNECTIONS_MAX * CONNECTION_KIB / 1024
    if grown_mib > bound_mib:
        failures.append(f"memory grew by {grown_mib:.0f} MiB, bound {bound_mib:.0f} MiB")
    return failures


if __name__ == "__main__":
    main()
