"""Backends that fail, the replies to their clients, and the latency of other routes: `bench/study.py faults`.

A proxied route gets a hundred requests per second at random moments, each on a new connection. A scripted
route of the same worker gets a thousand requests per second. In each round the backend works for one window,
has its fault for one window, and works again. A fault passes if three conditions are met. The breaker opens
within its window. The proxied route recovers. The median p99 of the scripted route rises to at most 1.2 times
its value during the first window.

On a virtual machine the p99 has no meaning while the host uses the cores for other machines. A round counts
if the host took at most a hundredth of a core in both windows. Other rounds are repeated a few times. If the
p99 is above its bound, the same number of rounds is run again, up to three times. All these rounds count.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from lib.neighbour import Neighbour
from lib.servers import LOAD_CORE, PROGRAM, Instance, cores_kept_awake
from lib.usage import stolen_s

LIMIT_S, TIMEOUT_S, WINDOW_S, OPEN_S = 0.5, 2, 2, 1
CONFIGURATION = f"""
[server]
listen = ["127.0.0.1:0"]
workers = 1
[backend.ill]
urls = ["http://127.0.0.1:@BACKEND@"]
connect_timeout = "{LIMIT_S * 1000:.0f}ms"
first_byte_timeout = "{LIMIT_S * 1000:.0f}ms"
idle_timeout = "{LIMIT_S * 1000:.0f}ms"
timeout = "{TIMEOUT_S}s"
pool_age_max = "200ms"
breaker_window = "{WINDOW_S}s"
breaker_open = "{OPEN_S}s"
[[route]]
path = "/fine"
script = "fine.luau"
[[route]]
path = "/ill"
proxy = "ill"
"""
SCRIPTS = {
    "fine.luau": "return function(req) return { json = { score = (tonumber(req.query.x) or 0) * 2 + 1 } } end"
}
#: Faults by their kind, spelled as in `tollgate-faults list`.
FAULTS = {
    "dead": ["refuse", "unaccepted"],
    "silent": ["silent", "frozen", "silent-after-head"],
    "dripping": ["drip:1s", "drip-content:1s"],
    "resetting": ["reset-at-once", "reset", "reset-in-content"],
    "lying about lengths": ["short-content", "long-content", "huge-length", "two-lengths"],
    "smuggling": ["length-and-chunked", "second-reply", "content-of-204", "bare-lf", "bad-chunk-size"],
    "babbling": ["garbage:4KiB", "interim:100000", "status:503"],
}
ASK = b"GET /ill HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
ASKS_S = 100
#: The content of a refusal by the breaker begins with this text.
LEFT_ALONE = b"the backend failed too often"
REFUSED = "503, not asked"
#: Number of good replies in a row after which a backend counts as recovered.
WELL_COUNT = 20
RECOVERY_S_MAX = OPEN_S + 2 * TIMEOUT_S
P99_RATIO_MAX = 1.2
#: Maximum share of a window for which the host may use the cores for other machines.
STOLEN_SHARE_MAX = 0.01
#: Rounds that are run, and rounds that count, at most. Both are multiples of the number that the option asks
#: for.
TRIES, COUNTED = 6, 3


class Backend:
    """The command `tollgate-faults backend`. A line on its stdin changes its fault."""

    def __init__(self):
        command = ["taskset", "-c", LOAD_CORE, str(PROGRAM.with_name("tollgate-faults")), "backend", "none"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split(":")[-1])

    def turn(self, fault: str):
        print(fault, file=self.process.stdin, flush=True)
        while self.process.stdout.readline().strip() != f"now {fault}":
            pass

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


@dataclass(frozen=True)
class Answer:
    """The outcome of a request."""

    asked: float
    ended: float
    seen: str

    @property
    def took_ms(self) -> float:
        return (self.ended - self.asked) * 1000


class Asker:
    """Sends requests to the proxied route in a thread, until it is stopped.

    The moments are random, as with independent clients. At even intervals, these requests would coincide with
    the requests for the other route either always or never in a window.
    """

    def __init__(self, port: int):
        self.port = port
        self.answers: list[Answer] = []
        self.is_stopped = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.ask_at_random()))
        self.thread.start()

    async def ask_at_random(self):
        due, running = time.monotonic(), set()
        while not self.is_stopped.is_set():
            await asyncio.sleep(max(0, due - time.monotonic()))
            task = asyncio.create_task(self.ask())
            running.add(task)
            task.add_done_callback(running.discard)
            due += random.expovariate(ASKS_S)
        await asyncio.gather(*running)

    async def ask(self):
        asked = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(ASK)
            seen = what_came(await reader.read())
            writer.close()
        except OSError as error:
            seen = type(error).__name__
        self.answers.append(Answer(asked, time.monotonic(), seen))

    def wait_until_well(self, since: float) -> float:
        """Returns the time of the first of `WELL_COUNT` good replies in a row, to requests after `since`."""
        while time.monotonic() < since + 10 * RECOVERY_S_MAX:
            time.sleep(0.05)
            begun = None
            count = 0
            for answer in [answer for answer in self.answers if answer.asked >= since]:
                count = count + 1 if answer.seen == "200" else 0
                begun = answer.ended if count == 1 else begun
                if count == WELL_COUNT:
                    return begun
        raise RuntimeError("the backend replies, but its route does not")

    def stop(self):
        self.is_stopped.set()
        self.thread.join()


def what_came(came: bytes) -> str:
    """Returns the status of the final reply, and whether its content is whole."""
    head, blank, content = came.partition(b"\r\n\r\n")
    while head[9:10] == b"1":
        head, blank, content = content.partition(b"\r\n\r\n")
    if not blank:
        return "nothing"
    if content.startswith(LEFT_ALONE):
        return REFUSED
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if b"content-length" in fields:
        is_whole = len(content) == int(fields[b"content-length"])
    else:
        is_whole = b"transfer-encoding" not in fields or content.endswith(b"0\r\n\r\n")
    return head[9:12].decode() + ("" if is_whole else ", cut")


@dataclass(frozen=True)
class Window:
    """The figures of the scripted route during some seconds."""

    p99_ms: float
    is_calm: bool

    @classmethod
    def watch(cls, port: int, seconds: float) -> "Window":
        stolen_before_s = stolen_s()
        took, _ = Neighbour(port, seconds, "/fine?x=3").result()
        return cls(took[len(took) * 99 // 100], stolen_s() - stolen_before_s <= STOLEN_SHARE_MAX * seconds)


@dataclass
class Row:
    """A fault, over all rounds. Times are in seconds from the change of the backend's fault."""

    kind: str
    fault: str
    #: Number of rounds that must count.
    wanted: int
    #: The p99 of the scripted route while the backend worked, in the rounds that count.
    well_p99_ms: list[float] = field(default_factory=list)
    ill_p99_ms: list[float] = field(default_factory=list)
    opened_s: list[float] = field(default_factory=list)
    recovered_s: list[float] = field(default_factory=list)
    #: Counts of the replies during the fault, by kind.
    seen: Counter = field(default_factory=Counter)
    took_ms: dict[str, list[float]] = field(default_factory=dict)
    refused: int = 0
    refused_ms: list[float] = field(default_factory=list)
    rounds: int = 0

    def take(self, answers: list[Answer], ill_at: float):
        refusals = [answer for answer in answers if answer.seen == REFUSED]
        if refusals:
            self.opened_s.append(min(answer.ended for answer in refusals) - ill_at)
            self.refused_ms += [answer.took_ms for answer in refusals]
        for answer in answers:
            if answer.seen != REFUSED:
                self.seen[answer.seen] += 1
                self.took_ms.setdefault(answer.seen, []).append(answer.took_ms)
        self.rounds += 1

    def take_windows(self, well: "Window", ill: "Window"):
        if well.is_calm and ill.is_calm:
            self.well_p99_ms.append(well.p99_ms)
            self.ill_p99_ms.append(ill.p99_ms)

    @property
    def calm(self) -> int:
        return len(self.well_p99_ms)

    def is_known(self) -> bool:
        """Returns whether enough rounds count.

        A ratio above its bound may be chance, so the same number of rounds is run again, twice at most.
        """
        if not self.calm or self.calm % self.wanted:
            return False
        return self.ratio <= P99_RATIO_MAX or self.calm >= COUNTED * self.wanted

    @property
    def ratio(self) -> float:
        return median(self.ill_p99_ms) / median(self.well_p99_ms)

    @property
    def is_failure(self) -> bool:
        """Whether most clients got a failure of the backend."""
        return self.seen.most_common(1)[0][0] not in ("200", "204")

    def __str__(self):
        seen = "; ".join(
            f"{seen}, {median(self.took_ms[seen]):.0f} ms"
            for seen, count in self.seen.most_common(2)
            if count > 2
        )
        opened = f"{median(self.opened_s):.2f} s" if self.opened_s else "-"
        then = f"{median(self.refused_ms):.1f} ms" if self.refused_ms else "-"
        return (
            f"| {self.kind} | `{self.fault}` | {seen} | {opened} | {then} | {median(self.recovered_s):.2f} s "
            + (
                f"| {median(self.well_p99_ms):.2f} ms | {median(self.ill_p99_ms):.2f} ms | {self.ratio:.2f} |"
                if self.calm
                else "| - | - | - |"
            )
        )

    def failures(self) -> list[str]:
        found = []
        if self.is_failure and (len(self.opened_s) < self.rounds or max(self.opened_s) > WINDOW_S):
            found.append(
                f"{self.fault}: the breaker opened after {self.opened_s} s, its window is {WINDOW_S} s"
            )
        if max(self.recovered_s) > RECOVERY_S_MAX:
            found.append(
                f"{self.fault}: the route was back after {max(self.recovered_s):.1f} s, allowed are {RECOVERY_S_MAX} s"
            )
        if self.calm < self.wanted:
            found.append(
                f"{self.fault}: the cores were ours in {self.calm} of {self.rounds} rounds, too "
                "little is known of the scripted route"
            )
        elif self.ratio > P99_RATIO_MAX:
            found.append(f"{self.fault}: p99 of the scripted route {self.ratio:.2f}x")
        return found


def main():
    arguments = parse()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    with tempfile.TemporaryDirectory(prefix="tollgate-backend-faults-") as folder, cores_kept_awake():
        backend = Backend()
        server = Instance(Path(folder), CONFIGURATION.replace("@BACKEND@", str(backend.port)), SCRIPTS)
        asker = Asker(server.port)
        try:
            asker.wait_until_well(time.monotonic())
            rows = [
                Row(kind, fault, arguments.rounds)
                for kind, faults in FAULTS.items()
                for fault in faults
                if arguments.only in (None, fault)
            ]
            for number in range(TRIES * arguments.rounds):
                for row in [row for row in rows if not row.is_known()]:
                    take_round(row, backend, asker, server.port, arguments.seconds)
                    print(f"  {number + 1}: {row.fault}, {row.calm} count", file=sys.stderr)
        finally:
            asker.stop()
            server.stop()
            backend.stop()
    print(
        "| the backend is | fault | the client sees, after | breaker open after | then 503 after | back after "
        f"| p99 beside it well | ill | ratio |\n|{' --- |' * 9}"
    )
    for row in rows:
        print(row)
    sys.exit("\n".join(failure for row in rows for failure in row.failures()) or None)


def parse():
    faults = [fault for of_kind in FAULTS.values() for fault in of_kind]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=faults)
    parser.add_argument("--rounds", type=int, default=9, help="how often each fault is on, and counts")
    parser.add_argument("--seconds", type=float, default=3, help="how long a window is")
    return parser.parse_args()


def take_round(row: Row, backend: Backend, asker: Asker, port: int, seconds: float):
    well = Window.watch(port, seconds)
    asker.answers.clear()
    ill_at = time.monotonic()
    backend.turn(row.fault)
    ill = Window.watch(port, seconds)
    well_at = time.monotonic()
    row.take([answer for answer in asker.answers if answer.asked >= ill_at], ill_at)
    row.take_windows(well, ill)
    backend.turn("none")
    row.recovered_s.append(asker.wait_until_well(well_at) - well_at)
