#!/usr/bin/env python3
"""More work than the server can do, and what becomes of it: `bench/overload.py [--seconds S]`.

A script that computes for some milliseconds is asked as fast as it answers (the peak), at 70 % of that, and at twice that,
evenly and without waiting for replies, as independent clients ask. Goodput is replies of 200 a second; their latency counts
from the moment when they were to be sent. It holds if goodput stays at 0.9 of the peak, every refusal is a 503 with
Retry-After, and no connection breaks.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from servers import LOAD_CORE, Instance

CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
[[route]]
path = "/"
script = "work.luau"
"""
SCRIPTS = {
    "work.luau": "return function() local x = 0 for i = 1, 240000 do x = (x + i * i) % 7 end return tostring(x) end",
}
ASK = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
PEAK_CLIENTS = 32
CONNECTIONS_MAX = 8000
#: How late a request may be sent.
BEHIND_S_MAX = 0.1


class Client(asyncio.Protocol):
    """One connection with one request at a time."""

    def __init__(self, done, lost):
        self.done, self.lost = done, lost
        self.came = b""
        self.due = None
        self.is_over = False

    def connection_made(self, transport):
        self.transport = transport

    def ask(self, due):
        self.due, self.came = due, b""
        self.transport.write(ASK)

    def data_received(self, data):
        self.came += data
        head, blank, content = self.came.partition(b"\r\n\r\n")
        if not blank:
            return
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if len(content) >= int(fields[b"content-length"]):
            due, self.due = self.due, None
            self.is_over = fields.get(b"connection") == b"close"
            self.done(self, int(head[9:12]), b"retry-after" in fields, time.monotonic() - due)

    def connection_lost(self, _):
        self.lost(self)


class Run:
    """What was answered, and what was not."""

    def __init__(self, port):
        self.port = port
        self.idle = deque()
        self.open = 0
        self.latencies, self.refused, self.wrong, self.broken = [], 0, [], 0
        self.behind_max = 0.0
        self.ends_at, self.in_time = 0.0, 0

    def done(self, client, status, has_retry_after, latency):
        if status == 200:
            self.latencies.append(latency)
            self.in_time += time.monotonic() <= self.ends_at
        elif status == 503 and has_retry_after:
            self.refused += 1
        else:
            self.wrong.append(status)
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
        _, client = await loop.create_connection(lambda: Client(self.done, self.lost), "127.0.0.1", self.port)
        return client

    async def saturate(self, seconds):
        """As fast as it answers."""
        end = self.ends_at = time.monotonic() + seconds
        self.answered = lambda client: client.ask(time.monotonic()) if time.monotonic() < end else None
        for _ in range(PEAK_CLIENTS):
            (await self.connect()).ask(time.monotonic())
        await asyncio.sleep(seconds + 0.2)
        return self

    async def offer(self, rate, seconds):
        """So many a second, whatever becomes of those before."""
        begun = time.monotonic()
        self.ends_at = begun + seconds
        for number in range(int(rate * seconds)):
            due = begun + number / rate
            if (ahead := due - time.monotonic()) > 0:
                await asyncio.sleep(ahead)
            self.behind_max = max(self.behind_max, -ahead)
            if self.idle:
                self.idle.popleft().ask(due)
            elif self.open < CONNECTIONS_MAX:
                (await self.connect()).ask(due)
            else:
                self.broken += 1
        await asyncio.sleep(1)
        return self

    def p99_ms(self):
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)] * 1000 if self.latencies else float("nan")

    def row(self, title, rate, seconds):
        goodput = self.in_time / seconds
        print(f"| {title} | {rate:.0f} | {goodput:.0f} | {self.refused / seconds:.0f} | {self.p99_ms():.1f} ms | {self.broken} |")
        return goodput


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    seconds = parser.parse_args().seconds
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    with tempfile.TemporaryDirectory(prefix="tollgate-overload-") as folder:
        server = Instance(Path(folder), CONFIGURATION, SCRIPTS)
        try:
            sys.exit(measure(server.port, seconds))
        finally:
            server.stop()


def measure(port, seconds):
    print("| offered | requests/s | goodput/s | refused/s | p99 of the accepted | broken |")
    print("| --- | --- | --- | --- | --- | --- |")
    peak = asyncio.run(Run(port).saturate(seconds)).in_time / seconds
    usual = asyncio.run(Run(port).offer(0.7 * peak, seconds))
    usual.row("70 % of the peak", 0.7 * peak, seconds)
    twice = asyncio.run(Run(port).offer(2 * peak, seconds))
    goodput = twice.row("twice the peak", 2 * peak, seconds)
    print(f"\npeak {peak:.0f}/s; at twice that goodput is {goodput / peak:.2f} of it, p99 {twice.p99_ms() / usual.p99_ms():.1f}x")
    if twice.behind_max > BEHIND_S_MAX:
        return f"the clients were {twice.behind_max * 1000:.0f} ms behind themselves: this says nothing of the server"
    if goodput < 0.9 * peak or twice.broken or twice.wrong:
        return f"goodput {goodput / peak:.2f} of the peak, broken {twice.broken}, other replies {sorted(set(twice.wrong))}"
    return None


if __name__ == "__main__":
    main()
