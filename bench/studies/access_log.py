"""Cost of the access log in time and latency: `bench/study.py access_log [--rounds N]`.

Each round runs a server without the log and a server with it, one after the other. Both get the same open
loop of requests, and have one worker on a core of its own. The thread that writes the lines shares this core.
The ratios are those of the rounds.
"""

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

from lib.load import Oha
from lib.packages import install_oha, tell
from lib.paired import range_of
from lib.servers import Tollgate

RATE = "20,000 requests a second"
WARMUP_S = 1
PATHS = {"fixed reply": "/fixed", "script with a written record": "/recorded?x=20"}


class Without(Tollgate):
    name = "without"
    ack = "written"


class With(Without):
    name = "with"
    port = 8211

    def prepare(self):
        super().prepare()
        with (self.folder / "tollgate.toml").open("a") as configuration:
            configuration.write('\n[access_log]\nfile = "access.log"\n')


class Figure(NamedTuple):
    p50_us: float
    p99_us: float
    cpu_us: float


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    arguments = parser.parse_args()
    install_oha()
    print(f"{RATE}; median (lowest to highest) of {arguments.rounds} rounds\n")
    print("| requests | p50 with, of without | p99 with, of without | p99 without, us | processor time, us |")
    print("| --- | --- | --- | --- | --- |")
    for title, path in PATHS.items():
        rounds = [
            [measure(server, path, arguments.seconds) for server in (Without, With)]
            for _ in range(arguments.rounds)
        ]
        print(row(title, rounds), flush=True)


def measure(server_class: type[Tollgate], path: str, seconds: float) -> Figure:
    with tempfile.TemporaryDirectory(prefix="tollgate-access-log-") as folder:
        Path(folder).chmod(0o755)
        server = server_class(Path(folder) / "server")
        load = Oha(path, connections=64)
        server.start()
        try:
            load.run(server.port, WARMUP_S)
            before = server.cpu_s()
            figures = load.run(server.port, seconds)
            cpu_us = (server.cpu_s() - before) / figures.requests * 1e6
            check_lines(server)
        finally:
            server.stop()
    if figures.errors:
        raise RuntimeError(f"{server.name}: {figures.errors} of {figures.requests} requests failed")
    tell(f"{server.name} {path}: p99 {figures.p99_us:.0f} us, {cpu_us:.2f} us a request")
    return Figure(figures.p50_us, figures.p99_us, cpu_us)


def check_lines(server: Tollgate):
    """Checks that only the server with the log writes lines."""
    file = server.folder / "access.log"
    is_written = file.exists() and file.stat().st_size > 0
    if is_written != isinstance(server, With):
        raise RuntimeError(f"{server.name}: the access log is {'' if is_written else 'not '}written")


def row(title: str, rounds: list[list[Figure]]) -> str:
    without, logged = zip(*rounds, strict=True)
    ratios = [
        range_of([getattr(one, name) for one in logged], [getattr(one, name) for one in without])
        for name in ("p50_us", "p99_us")
    ]
    p99_us = sorted(one.p99_us for one in without)
    cpu = [sorted(one.cpu_us for one in figures)[len(rounds) // 2] for figures in (without, logged)]
    cells = [*map(str, ratios), f"{p99_us[0]:.0f} to {p99_us[-1]:.0f}", f"{cpu[0]:.2f} to {cpu[1]:.2f}"]
    return f"| {title} | " + " | ".join(cells) + " |"
