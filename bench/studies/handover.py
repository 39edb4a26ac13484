"""What the hand-over by a store costs: `bench/study.py handover [--only PART]`.

Parts: `shipping` compares the rate of `tollgate ship` with uploads of the same files by curl to the same
store. `loading` compares the processor time of a load from a store with a load from the log folder, for each
row. `workers` compares the instructions of worker threads for each request, with a ship target and without
one. `latency` compares p99 at a fixed rate, with a ship target and without one. The ways take turns, and each
ratio compares two runs of one round. Prints tables in Markdown. Exits 1 if a load has another number of
rows. Needs versitygw (`make versitygw`), curl, valgrind, and Debian's packages postgresql and wrk.
"""

import argparse
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from instructions import SHIP, instructions_of_workers
from lib.cluster import PACKAGES, Cluster
from lib.load import Oha, Wrk
from lib.packages import install_oha, install_packages, tell
from lib.paired import range_of, share_of
from lib.report import duration, machine
from lib.servers import PROGRAM, Tollgate
from lib.stores import ENVIRONMENT, Gateway

PATH = "/recorded?x=20"
#: The lowest rate of shipping, as a share of curl's rate.
SHIPPING_GOAL = 0.9
#: The highest processor time of a row from a store, as a share of the time of a row from the log folder.
LOADING_GOAL = 1.15
#: The highest instructions of worker threads with a ship target, as a share of those without one. The log
#: forms other batches in each run, so that two runs differ by about half a percent.
WORKERS_GOAL = 1.01
#: The highest p99 with a ship target, as a share of p99 without one.
LATENCY_GOAL = 1.5
#: The line of the shared configuration that this study replaces.
SEGMENT_AGE = 'segment_age_max = "10m"\n'


class Recorded(Tollgate):
    """The records that are shipped and loaded several times."""

    port = 8350
    ack = "written"

    def prepare(self):
        super().prepare()
        file = self.folder / "tollgate.toml"
        file.write_text(file.read_text().replace(SEGMENT_AGE, f'{SEGMENT_AGE}segment_bytes_max = "16MiB"\n'))

    def segments(self) -> list[Path]:
        return sorted((self.folder / "data/log").rglob("*.sealed"))


def main():
    arguments = parse()
    install_packages({*PACKAGES, *Wrk.packages, "curl", "valgrind"})
    tell(machine())
    with tempfile.TemporaryDirectory(prefix="tollgate-handover-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in [arguments.only] if arguments.only else PARTS:
            (folder / part).mkdir()
            (folder / part).chmod(0o755)
            tell(f"\n### {part}\n")
            PARTS[part](folder / part, arguments)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="how often each way is run")
    parser.add_argument("--mib", type=int, default=256, help="size of the log that is shipped and loaded")
    parser.add_argument("--seconds", type=float, default=10, help="how long requests are sent for `latency`")
    parser.add_argument("--rate", type=int, default=20_000, help="requests a second for `latency`")
    parser.add_argument("--only", choices=PARTS, help="one part to run")
    return parser.parse_args()


def record(folder: Path, mib: int) -> Recorded:
    """Records until the log has this size."""
    recorded = Recorded(folder / "app")
    recorded.start()
    try:
        while recorded.bytes_on_disk() < mib << 20:
            Wrk(PATH, depth=16).run(recorded.port, 2)
    finally:
        recorded.stop()
    return recorded


def shipping(folder: Path, arguments):
    recorded = record(folder, arguments.mib)
    files = recorded.segments()
    size = sum(file.stat().st_size for file in files)
    gateway = Gateway(folder / "store")
    ways = {
        "tollgate ship": lambda: ship(recorded, gateway, "sent", "sha256"),
        "tollgate ship --checksum crc64nvme": lambda: ship(recorded, gateway, "sent", "crc64nvme"),
        "curl -T": lambda: gateway.upload(files, "sent"),
        "curl -T with SHA-256": lambda: gateway.upload(files, "sent", is_signed=True),
    }
    rates = {name: [] for name in ways}
    try:
        for number in range(arguments.rounds):
            for name in list(ways) if number % 2 else reversed(ways):
                rates[name].append(size / elapsed(ways[name]))
                shutil.rmtree(gateway.path("sent"))
    finally:
        gateway.stop()
    tell(f"{len(files)} segments, {size / 2**20:.0f} MiB, medians of {arguments.rounds} rounds\n")
    table("MiB/s", rates, lambda rate: f"{rate / 2**20:.0f}")
    for ours, theirs in [
        ("tollgate ship --checksum crc64nvme", "curl -T"),
        ("tollgate ship", "curl -T with SHA-256"),
    ]:
        share = share_of(rates[ours], rates[theirs])
        verdict(f"{ours} to {theirs}", share, "at least", SHIPPING_GOAL, share.middle >= SHIPPING_GOAL)


def ship(recorded: Recorded, gateway: Gateway, prefix: str, checksum: str):
    command = [str(PROGRAM), "ship", "--to", f"s3://logs/{prefix}", "--endpoint", gateway.endpoint]
    command += ["--checksum", checksum]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*command, str(recorded.folder)], env=ENVIRONMENT, check=True, **quiet)


class Sqlite:
    """A sink whose rows the loader writes itself."""

    name = "SQLite"

    def __init__(self, folder: Path):
        self.file = folder / "rows.sqlite"

    @property
    def line(self) -> str:
        return f'sqlite = "{self.file}"'

    def empty(self):
        for file in self.file.parent.glob(f"{self.file.name}*"):
            file.unlink()

    def count(self) -> int:
        with closing(sqlite3.connect(self.file)) as base:
            return base.execute("SELECT count(*) FROM scores").fetchone()[0]

    def close(self):
        pass


class Postgres:
    """A sink whose rows a server writes. Only the processor time of the loader counts."""

    name = "PostgreSQL"

    def __init__(self, folder: Path):
        (folder / "cluster").mkdir()
        self.cluster = Cluster(folder / "cluster")

    @property
    def line(self) -> str:
        return f'postgres = "host={self.cluster.folder} user=bench dbname=postgres"'

    def empty(self):
        self.cluster.sql(
            "DROP SCHEMA IF EXISTS tollgate CASCADE", "DROP TABLE IF EXISTS scores", "CHECKPOINT"
        )

    def count(self) -> int:
        return int(self.cluster.sql("SELECT count(*) FROM scores"))

    def close(self):
        self.cluster.stop()


@dataclass
class Way:
    """One way to the segments: the arguments of `tollgate load`."""

    name: str
    arguments: list[str]


def loading(folder: Path, arguments):
    recorded = record(folder, arguments.mib)
    (folder / "shared").mkdir()
    to_folder = [str(PROGRAM), "ship", "--to", str(folder / "shared"), str(recorded.folder)]
    subprocess.run(to_folder, check=True, stdout=subprocess.DEVNULL)
    gateway = Gateway(folder / "store")
    try:
        ship(recorded, gateway, "shipped")
        ways = [
            Way("from the log folder", []),
            Way("from a folder", ["--from", str(folder / "shared")]),
            Way("from versitygw", ["--from", "s3://logs/shipped", "--endpoint", gateway.endpoint]),
        ]
        for sink in (Sqlite(folder), Postgres(folder)):
            try:
                compare_loads(recorded, sink, ways, arguments.rounds)
            finally:
                sink.close()
    finally:
        gateway.stop()


def compare_loads(recorded: Recorded, sink, ways: list[Way], rounds: int):
    configuration = recorded.folder / "load.toml"
    configuration.write_text(f"{(recorded.folder / 'tollgate.toml').read_text()}\n[sink.main]\n{sink.line}\n")
    rows = None
    cpu_us: dict[str, list[float]] = {way.name: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 else reversed(ways):
            sink.empty()
            spool = recorded.folder / "fetched"
            more = [*way.arguments, "--spool", str(spool)] if way.arguments else []
            command = [str(PROGRAM), "load", "--once", *more, str(configuration)]
            seconds = cpu_s(command)
            shutil.rmtree(spool, ignore_errors=True)
            found = sink.count()
            if rows not in (None, found):
                raise SystemExit(f"{way.name}: {found} rows, before {rows}")
            rows = found
            cpu_us[way.name].append(seconds * 1e6 / rows)
    tell(f"\n{sink.name}: {rows} rows, processor time of the loader per row, medians of {rounds} rounds\n")
    table("us/row", cpu_us, lambda us: f"{us:.3f}")
    local, *stores = ways
    for way in stores:
        share = share_of(cpu_us[way.name], cpu_us[local.name])
        verdict(f"{way.name} to {local.name}", share, "at most", LOADING_GOAL, share.middle <= LOADING_GOAL)


def cpu_s(command: list[str]) -> float:
    """Runs a program, and returns its user and system time."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=ENVIRONMENT, **quiet)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def workers(_folder: Path, arguments):
    counts: dict[str, list[float]] = {"without a ship target": [], "with a ship target": []}
    for _ in range(arguments.rounds):
        for (name, found), more in zip(counts.items(), ["", SHIP], strict=True):
            found.append(instructions_of_workers(more))
            tell(f"  {name}: {found[-1]:.0f}")
    tell("")
    table("instructions of workers per request", counts, lambda count: f"{count:.0f}")
    share = range_of(counts["with a ship target"], counts["without a ship target"])
    verdict("with to without", share, "at most", WORKERS_GOAL, share.middle <= WORKERS_GOAL)


class Local(Tollgate):
    """The server of the latency without a ship target. Its segments are short, so that some are sealed."""

    name = "without a ship target"
    port = 8351
    target = ""

    def prepare(self):
        super().prepare()
        file = self.folder / "tollgate.toml"
        short = 'segment_age_max = "1s"\nsegment_bytes_max = "1MiB"\n'
        file.write_text(file.read_text().replace(SEGMENT_AGE, short) + self.target)


def shipping_to(gateway: Gateway) -> type[Local]:
    (key := gateway.folder / "key").write_text(ENVIRONMENT["AWS_SECRET_ACCESS_KEY"])
    target = (
        f'[ship.main]\nstore = "s3://logs/latency"\nendpoint = "{gateway.endpoint}"\n'
        f'access_key = "{ENVIRONMENT["AWS_ACCESS_KEY_ID"]}"\nsecret_key = "file:{key}"\n'
    )
    return type("Shipping", (Local,), {"name": "with a ship target", "port": 8352, "target": target})


def latency(folder: Path, arguments):
    install_oha()
    gateway = Gateway(folder / "store")
    p99_us: dict[str, list[float]] = {}
    try:
        servers = [server(folder / server.__name__) for server in (Local, shipping_to(gateway))]
        for number in range(arguments.rounds):
            for server in servers if number % 2 else reversed(servers):
                server.start()
                try:
                    figures = Oha(PATH, rate_per_s=arguments.rate).run(server.port, arguments.seconds)
                finally:
                    server.stop()
                p99_us.setdefault(server.name, []).append(figures.p99_us)
        shipped = sum(1 for _ in gateway.path("latency").rglob("*.seg"))
    finally:
        gateway.stop()
    tell(f"{arguments.rate} requests/s, {shipped} segments shipped, medians of {arguments.rounds} rounds\n")
    table("p99", p99_us, duration)
    share = range_of(p99_us["with a ship target"], p99_us["without a ship target"])
    verdict("with to without", share, "at most", LATENCY_GOAL, share.middle <= LATENCY_GOAL)


PARTS: dict[str, Callable] = {
    "shipping": shipping,
    "loading": loading,
    "workers": workers,
    "latency": latency,
}


def table(unit: str, values: dict[str, list[float]], text: Callable[[float], str]):
    tell(f"| way | {unit} | lowest | highest |\n| --- | --- | --- | --- |")
    for name, found in values.items():
        tell(f"| {name} | {text(median(found))} | {text(min(found))} | {text(max(found))} |")


def verdict(name: str, share, bound: str, goal: float, is_met: bool):
    tell(f"\n{name}: {share}, goal {bound} {goal:g}: {'met' if is_met else '**missed**'}")


def elapsed(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun
