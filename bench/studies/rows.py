"""Rows per second into each database, compared with the fastest known way: `bench/study.py rows`, as root.

The server records under load, without a loader. Then the loader and its peer load the same rows into equal
tables, in turns. For PostgreSQL, `tollgate load --once` is compared with `psql \\copy` from a CSV file, in a
cluster for this run. For SQLite it is compared with a bare loop of prepared INSERTs from memory, in one
transaction. Exits 1 if the tables differ. Needs Debian's packages postgresql, wrk, gcc and libsqlite3-dev.
"""

import argparse
import itertools
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from lib.cluster import PACKAGES, Cluster
from lib.load import Wrk
from lib.packages import install_packages, tell
from lib.servers import PROGRAM, Tollgate, built

GOALS = {"PostgreSQL": 0.9, "SQLite": 0.8}


class Recorded(Tollgate):
    """The records that are loaded several times. The loader has a configuration of its own with the sink."""

    port = 8344
    ack = "written"

    @property
    def configuration(self) -> Path:
        return self.folder / "load.toml"

    def load(self, sink: str) -> float:
        """Returns the seconds of one load."""
        self.configuration.write_text(
            (self.folder / "tollgate.toml").read_text() + f"\n[sink.main]\n{sink}\n"
        )
        command = [str(PROGRAM), "load", "--once", str(self.configuration)]
        return elapsed(
            lambda: subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        )


class IntoPostgres:
    peer = "psql \\copy, CSV"

    def __init__(self, folder: Path, recorded: Recorded):
        self.recorded = recorded
        (folder / "cluster").mkdir()
        self.cluster = Cluster(folder / "cluster")
        self.csv = folder / "scores.csv"

    def version(self) -> str:
        return self.cluster.sql("SELECT split_part(version(), ' on ', 1)")

    def load(self) -> float:
        self.cluster.sql(
            "DROP SCHEMA IF EXISTS tollgate CASCADE", "DROP TABLE IF EXISTS scores", "CHECKPOINT"
        )
        return self.recorded.load(f'postgres = "host={self.cluster.folder} user=bench dbname=postgres"')

    def keep(self) -> int:
        """Copies the loaded rows for the peer, and returns their number."""
        self.cluster.sql(f"\\copy scores to '{self.csv}' csv")
        return int(self.cluster.sql("SELECT count(*) FROM scores"))

    def run_peer(self) -> float:
        self.cluster.sql("DROP TABLE IF EXISTS copied", "CREATE TABLE copied (LIKE scores)", "CHECKPOINT")
        return elapsed(lambda: self.cluster.sql(f"\\copy copied from '{self.csv}' csv"))

    def different(self) -> int:
        difference = "SELECT count(*) FROM (TABLE {} EXCEPT ALL TABLE {}) AS difference"
        return sum(
            int(self.cluster.sql(difference.format(*pair)))
            for pair in (("scores", "copied"), ("copied", "scores"))
        )

    def close(self):
        self.cluster.stop()


class IntoSqlite:
    peer = "prepared INSERTs, one transaction"

    def __init__(self, folder: Path, recorded: Recorded):
        self.recorded = recorded
        self.ours, self.kept, self.theirs = (folder / f"{name}.sqlite" for name in ("ours", "kept", "theirs"))
        self.loop = built("rows", "-lsqlite3")

    def version(self) -> str:
        ask = [
            str(PROGRAM),
            "sql",
            "--config",
            str(self.recorded.configuration),
            "--format",
            "csv",
            "SELECT sqlite_version()",
        ]
        ours = subprocess.run(ask, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
        return f"SQLite {ours} of tollgate, {self.version_of_loop} of the loop"

    def load(self) -> float:
        remove(self.ours)
        return self.recorded.load(f'sqlite = "{self.ours}"')

    def keep(self) -> int:
        with closing(sqlite3.connect(self.ours)) as base:
            base.execute("VACUUM INTO ?", [str(self.kept)])
            return base.execute("SELECT count(*) FROM scores").fetchone()[0]

    def run_peer(self) -> float:
        remove(self.theirs)
        command = [self.loop, self.kept, self.theirs, "scores"]
        seconds, self.version_of_loop = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.split()
        return float(seconds)

    def different(self) -> int:
        with closing(sqlite3.connect(self.ours)) as ours, closing(sqlite3.connect(self.theirs)) as theirs:
            rows = [base.execute("SELECT * FROM scores ORDER BY rowid") for base in (ours, theirs)]
            return sum(one != other for one, other in itertools.zip_longest(*rows))

    def close(self):
        pass


TARGETS = {"PostgreSQL": IntoPostgres, "SQLite": IntoSqlite}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="how long rows are recorded")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=TARGETS)
    arguments = parser.parse_args()
    install_packages({*PACKAGES, *Wrk.packages, "gcc", "libc6-dev", "libsqlite3-dev"})
    with tempfile.TemporaryDirectory(prefix="tollgate-rows-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        recorded = Recorded(folder / "app")
        record(recorded, arguments.seconds)
        failures = [
            compare(title, folder, recorded, arguments.rounds)
            for title in TARGETS
            if arguments.only in (None, title)
        ]
    sys.exit("\n".join(failure for failure in failures if failure) or 0)


def record(recorded: Recorded, seconds: float):
    recorded.start()
    try:
        Wrk("/recorded?x=20", depth=16).run(recorded.port, seconds)
    finally:
        recorded.stop()


def compare(title: str, folder: Path, recorded: Recorded, rounds: int) -> str | None:
    target = TARGETS[title](folder, recorded)
    try:
        target.load()
        rows = target.keep()
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(rows / target.run_peer())
            ours.append(rows / target.load())
        different = target.different()
        tell(f"{target.version()}: {rows} rows, median of {rounds} rounds")
    finally:
        target.close()
    for name, rates in (("tollgate load --once", ours), (target.peer, theirs)):
        tell(f"{name:34} {statistics.median(rates):10.0f} rows/s  ({min(rates):.0f} to {max(rates):.0f})")
    tell(f"ratio {statistics.median(ours) / statistics.median(theirs):.2f}, goal {GOALS[title]}")
    return f"{title}: {different} rows differ" if different else None


def remove(database: Path):
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()


def elapsed(work) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun
