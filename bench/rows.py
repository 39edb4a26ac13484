#!/usr/bin/env python3
"""Rows a second into PostgreSQL, beside `psql \\copy` of the same rows: `bench/rows.py [--seconds S] [--rounds N]`, as root.

The server records under load, without a loader. Then `tollgate load --once` and `psql \\copy` from a CSV file bring the same
rows into tables of the same make, in turns, in a cluster of their own that is removed afterwards. It ends with 1 if the tables
differ. Needs Debian's package postgresql.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from glob import glob
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from abuse import PROGRAM
from servers import LOAD_CORE, ROOT, SERVER_CORE

PORT = 8344
CONFIGURATION = """
[server]
listen = ["127.0.0.1:{port}"]
workers = 1
[load]
in_server = false
[stream.scores]
ack = "written"
columns = [
  {{ name = "at", type = "timestamp", from = "request.time" }},
  {{ name = "client", type = "inet", from = "request.remote_addr" }},
  {{ name = "path", type = "text", from = "request.path" }},
  {{ name = "status", type = "int", from = "reply.status" }},
  {{ name = "took_us", type = "int", from = "reply.time_us" }},
  {{ name = "score", type = "float", from = "record.score" }},
]
[[route]]
path = "/recorded"
script = "recorded.luau"
stream = "scores"
[sink.main]
postgres = "host={folder} user=bench dbname=postgres"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="how long rows are recorded")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tollgate-rows-") as name:
        folder = Path(name)
        shutil.chown(folder, "postgres")
        folder.chmod(0o755)
        cluster = Cluster(folder)
        try:
            sys.exit(measure(folder, cluster, arguments.seconds, arguments.rounds))
        finally:
            cluster.stop()


class Cluster:
    """A PostgreSQL server with a socket in the folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = os.pathsep.join([*sorted(glob("/usr/lib/postgresql/*/bin")), os.environ["PATH"]])
        self.run("initdb", "-D", "data", "-A", "trust", "-U", "bench")
        self.run("pg_ctl", "-D", "data", "-o", f"-k {folder} -c listen_addresses=", "-l", "log", "-w", "start")

    def run(self, *command: str):
        as_owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        environment = {**os.environ, "PATH": self.path}
        subprocess.run(as_owner, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, check=True)

    def sql(self, *statements: str) -> str:
        command = ["psql", "-h", str(self.folder), "-U", "bench", "-qAt", "-v", "ON_ERROR_STOP=1", "postgres"]
        for statement in ["SET client_min_messages = warning", *statements]:
            command += ["-c", statement]
        environment = {**os.environ, "PATH": self.path}
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def stop(self):
        self.run("pg_ctl", "-D", "data", "-m", "fast", "stop")


def measure(folder: Path, cluster: Cluster, seconds: float, rounds: int) -> str | None:
    app = folder / "app"
    app.mkdir()
    (app / "tollgate.toml").write_text(CONFIGURATION.format(port=PORT, folder=folder))
    shutil.copy(ROOT / "bench/peers/tollgate-recorded.luau", app / "recorded.luau")
    record(app, seconds)
    load = [str(PROGRAM), "load", "--once", str(app)]
    csv = folder / "scores.csv"
    timed(load)
    cluster.sql(f"\\copy scores to '{csv}' csv")
    rows = int(cluster.sql("SELECT count(*) FROM scores"))
    ours, theirs = [], []
    for _ in range(rounds):
        cluster.sql("DROP TABLE IF EXISTS copied", "CREATE TABLE copied (LIKE scores)", "CHECKPOINT")
        theirs.append(rows / elapsed(lambda: cluster.sql(f"\\copy copied from '{csv}' csv")))
        cluster.sql("DROP SCHEMA tollgate CASCADE", "DROP TABLE scores", "CHECKPOINT")
        ours.append(rows / timed(load))
    difference = "SELECT count(*) FROM (TABLE {} EXCEPT ALL TABLE {}) AS difference"
    different = [cluster.sql(difference.format(*pair)) for pair in (("scores", "copied"), ("copied", "scores"))]
    print(f"{rows} rows, median of {rounds} rounds")
    for name, rates in (("tollgate load --once", ours), ("psql \\copy, CSV", theirs)):
        print(f"{name:22} {statistics.median(rates):10.0f} rows/s  ({min(rates):.0f} to {max(rates):.0f})")
    print(f"ratio {statistics.median(ours) / statistics.median(theirs):.2f}")
    return None if different == ["0", "0"] else f"the tables differ by {' and '.join(different)} rows"


def record(app: Path, seconds: float):
    server = subprocess.Popen(["taskset", "-c", SERVER_CORE, str(PROGRAM), "serve", str(app)], stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    wrk = ["taskset", "-c", LOAD_CORE, "wrk", "-t1", "-c64", f"-d{seconds}s", "-s", str(ROOT / "bench/peers/wrk.lua")]
    subprocess.run([*wrk, f"http://127.0.0.1:{PORT}/recorded?x=20", "--", "64", "16"], stdout=subprocess.DEVNULL, check=True)
    server.terminate()
    server.wait(60)


def timed(command: list[str]) -> float:
    return elapsed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True))


def elapsed(work) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
