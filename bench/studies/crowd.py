"""Many clients that request slow scripts, and others' latency: `bench/study.py crowd [--seconds S]`.

Clients on persistent connections send requests for a script to one worker. Each client sends again after its
reply. At the same time, a fixed reply and a script that returns at once get a thousand requests per second.
The table has the replies and refusals per second for the many clients, their p99, and the latency of the
thousand requests. This latency counts from the moment when each request was due. Needs gcc.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from lib.neighbour import Neighbour
from lib.servers import LOAD_CORE, SERVER_CORE, Instance, built

CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
[[route]]
path = "/long/{turns}"
script = "long.luau"
[[route]]
path = "/quick"
script = "quick.luau"
[[route]]
path = "/fixed"
reply = { body = "hello" }
"""
SCRIPTS = {
    "long.luau": (
        "return function(req) local x = 0 for i = 1, tonumber(req.params.turns) do x = (x + i * i) % 7 end "
        "return tostring(x) end"
    ),
    "quick.luau": "return function() return 'hello' end",
}
#: Number of clients, and the turns of the loop in their script: 50,000 turns are about a millisecond.
CROWDS = [
    (0, 0),
    (8, 10_000),
    (60, 10_000),
    (60, 80_000),
    (200, 80_000),
    (1_000, 80_000),
    (8_000, 10),
    (8_000, 10_000),
    (8_000, 80_000),
    (60, 1_000_000),
    (200, 1_000_000),
]
NEIGHBOURS = ["/fixed", "/quick"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    others = [f"{path} {told}" for path in NEIGHBOURS for told in ("p50", "p99", "longest")]
    print("| clients | turns of the script | answered/s | refused/s | p99, ms | " + " | ".join(others) + " |")
    print("|" + " --- |" * (5 + len(others)))
    with tempfile.TemporaryDirectory(prefix="tollgate-crowd-") as folder:
        server = Instance(Path(folder), CONFIGURATION, SCRIPTS, SERVER_CORE)
        try:
            for clients, turns in CROWDS:
                measure(server, clients, turns, arguments.seconds)
        finally:
            server.stop()


def measure(server: Instance, clients: int, turns: int, seconds: float):
    crowd = Crowd(server.port, clients, turns, seconds) if clients else None
    neighbours = [Neighbour(server.port, seconds, path) for path in NEIGHBOURS]
    all_took = [neighbour.result()[0] for neighbour in neighbours]
    others = [
        f"{told:.2f}"
        for took in all_took
        for told in (took[len(took) // 2], took[int(len(took) * 0.99)], took[-1])
    ]
    told = crowd.told() if crowd else ["-"] * 3
    print(f"| {clients} | {turns:,} | " + " | ".join(told + others) + " |", flush=True)


class Crowd:
    """Clients that request one script repeatedly, for some seconds."""

    def __init__(self, port: int, clients: int, turns: int, seconds: float):
        self.seconds = seconds
        self.folder = tempfile.TemporaryDirectory(prefix="tollgate-crowd-ask-")
        ask = Path(self.folder.name) / "ask"
        ask.write_bytes(f"GET /long/{turns} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        command = [built("offer"), port, ask, 1, clients, 0, seconds]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)

    def told(self) -> list[str]:
        out, _ = self.process.communicate()
        self.folder.cleanup()
        _, answered, refused, *_, p99_ms = out.split()
        return [
            f"{int(answered) / self.seconds:.0f}",
            f"{int(refused) / self.seconds:.0f}",
            f"{float(p99_ms):.1f}",
        ]
