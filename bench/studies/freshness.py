"""The rate up to which rows are loaded within a second: `bench/study.py freshness [--only NAME]`, as root.

Requests arrive at ack level `synced`, at rising rates and then as fast as they are answered. Server, loader
and database share one core. During the load the study reads the loader's position. The first record after the
position is the oldest record without a row. The delay is the age of this record. A rate passes if no row is
later than a second and if the rate was kept. After the last step all rows are counted. Needs Debian's
packages postgresql and wrk.
"""

import argparse
import os
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from lib.cluster import PACKAGES, Cluster
from lib.designs import wait_until
from lib.load import Figures, Oha, Wrk
from lib.packages import install_oha, install_packages, tell
from lib.report import machine
from lib.servers import LOAD_CORE, SERVER_CORE, Tollgate

PATH = "/recorded?x=20"
RATES = [5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 80_000]
LATE_S_MAX = 1.0
HOLDS, NOT_KEPT, LATE = "holds", "rate not kept", "late"
KEPT_SHARE = 0.98
REFUSED_SHARE_MAX = 0.0001
ASK_EACH_S = 0.02
WARMUP_RATE = 1_000
#: The end of the columns in the configuration that all benches share. This study adds a column after it.
COLUMNS_END = '{ name = "score", type = "float", from = "record.score" },\n'
SEQUENCE = '  { name = "sequence", type = "int", from = "log.sequence" },\n'


class Fresh(Tollgate):
    """Tollgate with a loader. Each row has its sequence number in the log. One run writes one log."""

    ack = "synced"
    loads = True
    #: Expression for the time of a row in microseconds since 1970, in the SQL of its database.
    at_us = ""
    positions = ""

    def prepare(self):
        super().prepare()
        file = self.folder / "tollgate.toml"
        file.write_text(file.read_text().replace(COLUMNS_END, COLUMNS_END + SEQUENCE))

    def ask_base(self, statement: str) -> list[list[str]]:
        raise NotImplementedError

    def position(self) -> int:
        return int(self.ask_base(f"SELECT max(last) FROM {self.positions}")[0][0])

    def asked_at(self, sequences: set[int]) -> dict[int, float]:
        """Returns the arrival times of the requests of these rows. Sequence numbers without a row are left
        out.
        """
        listed = ", ".join(map(str, sorted(sequences)))
        rows = self.ask_base(f"SELECT sequence, {self.at_us} FROM scores WHERE sequence IN ({listed})")
        return {int(sequence): float(at_us) / 1e6 for sequence, at_us in rows}

    def rows(self) -> int:
        return int(self.ask_base("SELECT count(*) FROM scores")[0][0])


class FreshSqlite(Fresh):
    name = "SQLite"
    port = 8345
    at_us = "CAST(round((julianday(substr(at, 1, 19)) - 2440587.5) * 86400) AS INTEGER) * 1000000 + substr(at, 21, 6)"
    positions = "tollgate_positions"

    def __init__(self, folder: Path):
        super().__init__(folder / "sqlite")

    def ask_base(self, statement):
        with closing(
            sqlite3.connect(f"file:{self.folder}/data/tollgate.sqlite?mode=ro", uri=True, timeout=60)
        ) as base:
            return base.execute(statement).fetchall()


class FreshPostgres(Fresh):
    name = "PostgreSQL"
    port = 8346
    at_us = "extract(epoch FROM at) * 1000000"
    positions = "tollgate.positions"

    def __init__(self, folder: Path):
        super().__init__(folder / "postgres")
        (folder / "cluster").mkdir()
        self.cluster = Cluster(folder / "cluster", core=SERVER_CORE)
        self.psql = self.cluster.session()

    @property
    def sink(self):
        return f'postgres = "host={self.cluster.folder} user=bench dbname=postgres"'

    def ask_base(self, statement):
        return self.psql.ask(statement)

    def stop(self):
        super().stop()
        self.psql.close()
        self.cluster.stop()


TARGETS = [FreshSqlite, FreshPostgres]


class Watch(threading.Thread):
    """Reads the position repeatedly.

    Each pair has a position, and a moment until which it may have been the last position.
    """

    def __init__(self, server: Fresh):
        super().__init__()
        self.server, self.ended, self.seen = server, threading.Event(), []

    def run(self):
        before = self.server.position()
        while not self.ended.wait(ASK_EACH_S):
            # Records after the last position may have arrived at any time up to this answer.
            position, now = self.server.position(), time.time()
            self.seen.append((before, now))
            before = position

    def late_s(self) -> float:
        """Returns the largest age of the oldest record without a row.

        The result is an upper bound, because the position is read only at intervals.
        """
        asked_at = self.server.asked_at({position + 1 for position, _ in self.seen})
        return max(
            (now - asked_at[position + 1] for position, now in self.seen if position + 1 in asked_at),
            default=0.0,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="how long each step takes")
    parser.add_argument("--rates", type=lambda text: [int(rate) for rate in text.split(",")], default=RATES)
    parser.add_argument("--only", choices=[target.name for target in TARGETS])
    arguments = parser.parse_args()
    install_packages(PACKAGES.union(Wrk.packages))
    install_oha()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    print(
        f"{machine()}. On core {SERVER_CORE}: server, loader, database. On core {LOAD_CORE}: the load generator.\n"
    )
    print(
        "| database | offered/s | answered/s | p99 of replies | rows late by at most | loaded after | |\n|"
        + " --- |" * 7,
        flush=True,
    )
    found = [climb(target, arguments) for target in TARGETS if arguments.only in (None, target.name)]
    print("\n" + "\n".join(found))


def climb(target: type[Fresh], arguments) -> str:
    """Runs the steps of one database, and returns their result."""
    with tempfile.TemporaryDirectory(prefix="tollgate-freshness-") as name:
        Path(name).chmod(0o755)
        server = target(Path(name))
        server.start()
        try:
            warm = Oha(PATH, rate_per_s=WARMUP_RATE).run(server.port, 1)
            drain(server)
            found = list(steps(server, arguments))
            check_rows(server, [warm, *(figures for figures, _ in found)])
        finally:
            server.stop()
    best = max((figures.rate for figures, verdict in found if verdict == HOLDS), default=0)
    return f"{target.name}: rows within {LATE_S_MAX:g} s of their request up to {best:,.0f} requests/s."


def steps(server: Fresh, arguments):
    """Runs rising rates until a rate fails.

    If the rate was not kept but no row was late, the last step sends as fast as requests are answered.
    """
    for rate in arguments.rates:
        figures, verdict = step(server, rate, arguments.seconds)
        yield figures, verdict
        if verdict == LATE:
            return
        if verdict == NOT_KEPT:
            break
    yield step(server, None, arguments.seconds)


def step(server: Fresh, rate: int | None, seconds: float) -> tuple[Figures, str]:
    """Returns the figures and the verdict of a rate. No rate: each reply is followed by a request."""
    load = Oha(PATH, rate_per_s=rate) if rate else Wrk(PATH)
    watch = Watch(server)
    watch.start()
    try:
        figures = load.run(server.port, seconds)
        ended = time.monotonic()
        drain(server)
        drain_s = time.monotonic() - ended
    finally:
        watch.ended.set()
        watch.join()
    late_s = watch.late_s()
    is_kept = (
        figures.rate >= KEPT_SHARE * (rate or 0) and figures.errors <= REFUSED_SHARE_MAX * figures.requests
    )
    verdict = LATE if late_s > LATE_S_MAX else HOLDS if is_kept else NOT_KEPT
    offered = f"{rate:,}" if rate else "all it takes"
    tell(
        f"| {server.name} | {offered} | {figures.rate:,.0f} | {figures.p99_us / 1000:.1f} ms | "
        f"{late_s:.2f} s | {drain_s:.1f} s | {verdict} |"
    )
    return figures, verdict


def drain(server: Fresh):
    wait_until(lambda: server.audit().get("pending") == 0, [server.process])


def check_rows(server: Fresh, runs: list[Figures]):
    """Checks that each answered request, except refusals, has its row.

    A request that a generator gave up at its end may have a row or not.
    """
    asked, refused = sum(figures.requests for figures in runs), sum(figures.errors for figures in runs)
    rows, most = server.rows(), asked + len(runs) * Wrk(PATH).connections
    if not asked - refused <= rows <= most:
        raise RuntimeError(
            f"{server.name}: {rows} rows for {asked} replies, {refused} of them refusals, expected up to {most}"
        )
