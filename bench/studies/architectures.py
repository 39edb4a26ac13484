"""Architectures with one reply and one database: `bench/study.py architectures [--only NAME]`, as root.

Each request for a small scored reply becomes a row of PostgreSQL. The ways are an INSERT before the reply, a
log that the server loads in bulk, a log that another process loads from a store, and a queue. The sustained
rate counts the time until the last row is in the table. Each round ends with a check of all rows. Missing or
wrong rows end the run. Needs Debian's packages nginx-light with Lua, postgresql, redis-server and wrk, and Go
for the peers that insert.
"""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from lib import svg
from lib.case import WARMUP_S, Probe, check_reply
from lib.cluster import PACKAGES, Cluster
from lib.designs import COLUMNS, DESIGNS, PATH, POOL, Design, Direct, Loaded, LoadedFromSynced, build_go
from lib.load import Figures, Oha, Wrk
from lib.packages import install_oha, install_packages, tell
from lib.report import duration, machine
from lib.servers import LOAD_CORE, ROOT, SERVER_CORE, first_line
from lib.usage import cpu_s_of, disk_bytes_written

PROBE = Probe("GET", PATH, b'{"score":41}')
GOAL = 5
#: Share of requests that a server may refuse on a busy machine.
REFUSED_SHARE_MAX = 0.0001
SETTINGS = ["fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "commit_delay"]
RIGHT = (
    "score = 41 AND status = 200 AND path = '/recorded' AND client = '127.0.0.1' AND at > now() "
    "- interval '1 hour' AND took_us >= 0"
)


@dataclass
class Turn:
    """The figures of a run. Processor time and bytes to the disk count until the last row is in the table.

    `paced` is a later load at a fixed rate.
    """

    sent: Figures
    drain_s: float
    web_cpu_s: float
    database_cpu_s: float
    disk_bytes: int
    paced: Figures

    @property
    def sustained(self) -> float:
        return self.sent.requests / (self.sent.seconds + self.drain_s)


@dataclass
class Row:
    """The rounds of one design."""

    design: Design
    absent: str | None
    turns: list[Turn] = field(default_factory=list)

    def mid(self, of) -> float:
        return median(of(turn) for turn in self.turns)

    @property
    def sustained(self) -> float:
        return self.mid(lambda turn: turn.sustained)

    @property
    def spread(self) -> float:
        """Returns half of the range, as a share of the median."""
        rates = [turn.sustained for turn in self.turns]
        return (max(rates) - min(rates)) / 2 / self.sustained


def main():
    arguments = parse()
    install_packages(PACKAGES.union(Wrk.packages, *(design.packages for design in DESIGNS)))
    install_oha()
    build_go()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    with tempfile.TemporaryDirectory(prefix="tollgate-architectures-", dir=arguments.folder) as name:
        folder = Path(name)
        cluster = Cluster(folder, core=SERVER_CORE)
        try:
            rows = run(folder, cluster, arguments)
        finally:
            cluster.stop()
    print("\n".join(table(rows)))
    Path(arguments.out).write_text(picture(rows))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each design is run; medians are reported"
    )
    parser.add_argument("--seconds", type=float, default=10, help="how long requests are sent in a turn")
    parser.add_argument("--connections", type=int, default=256, help="clients, each waits for its reply")
    parser.add_argument(
        "--rate", type=int, default=2000, help="requests a second at which latency is measured"
    )
    parser.add_argument(
        "--only",
        choices=[design.__name__ for design in DESIGNS],
        action="append",
        help="one architecture to run; may be repeated",
    )
    parser.add_argument("--out", default=str(ROOT / "target/bench/architectures.svg"), help="the picture")
    parser.add_argument("--folder", help="folder of logs and database; the study measures its disk")
    return parser.parse_args()


def run(folder: Path, cluster: Cluster, arguments) -> list[Row]:
    wanted = [design for design in DESIGNS if not arguments.only or design.__name__ in arguments.only]
    designs = [design(folder / design.__name__, cluster) for design in wanted]
    rows = [Row(design, design.absent()) for design in designs]
    print("\n".join(head(cluster, rows, arguments)), flush=True)
    for number in range(arguments.rounds):
        for row in rows:
            if not row.absent:
                row.turns.append(turn := take_turn(row.design, arguments))
                tell(
                    f"  {number + 1}/{arguments.rounds}  {row.design.name:32} "
                    f"{turn.sustained:8.0f}/s, {turn.drain_s:.1f} s behind"
                )
    return rows


def take_turn(design: Design, arguments) -> Turn:
    cluster, load, paced_load = (
        design.cluster,
        Wrk(PATH, arguments.connections),
        Oha(PATH, rate_per_s=arguments.rate),
    )
    design.start()
    try:
        asked_first = design.make_ready()
        check_reply(PROBE, design)
        warm = load.run(design.port, WARMUP_S)
        design.drain()
        cluster.sql("CHECKPOINT")
        disk_bytes = disk_bytes_written(design.folder)
        web_cpu_s, database_cpu_s = design.cpu_s(), cpu_s_of([cluster.pid])
        sent = load.run(design.port, arguments.seconds)
        ended = time.monotonic()
        design.drain()
        drain_s = time.monotonic() - ended
        web_cpu_s, database_cpu_s = design.cpu_s() - web_cpu_s, cpu_s_of([cluster.pid]) - database_cpu_s
        # The checkpoint writes the pages in the database's memory to the disk, before the bytes on the disk
        # are counted.
        cluster.sql("CHECKPOINT")
        disk_bytes = disk_bytes_written(design.folder) - disk_bytes
        paced = paced_load.run(design.port, arguments.seconds / 2)
        design.drain()
    finally:
        design.stop()
    check_rows(design, [warm, sent, paced], asked_first + 2 * load.connections + paced_load.connections)
    return Turn(sent, drain_s, web_cpu_s, database_cpu_s, disk_bytes, paced)


def check_rows(design: Design, runs: list[Figures], given_up_max: int):
    """Checks that each answered request has its row.

    A request that a generator gave up at its end, or that was sent before the design was ready, may have a
    row or not. A few requests may be refused.
    """
    refused, asked = sum(figures.errors for figures in runs), 1 + sum(figures.requests for figures in runs)
    if refused > asked * REFUSED_SHARE_MAX:
        raise RuntimeError(f"{design.name}: {refused} of {asked} requests failed")
    kinds = design.cluster.sql(
        "SELECT attname, format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'scores'::regclass AND attnum > 0"
    )
    if (found := dict(line.split("|") for line in kinds.splitlines())) != COLUMNS:
        raise RuntimeError(f"{design.name}: the table has {found}, expected {COLUMNS}")
    rows, right = map(
        int, design.cluster.sql(f"SELECT count(*), count(*) FILTER (WHERE {RIGHT}) FROM scores").split("|")
    )
    if not asked - refused <= rows <= asked + given_up_max or right != rows:
        raise RuntimeError(
            f"{design.name}: {rows} rows, {right} of them right, for {asked} replies, {refused} of "
            f"them refusals, and {given_up_max} given up"
        )


def head(cluster: Cluster, rows: list[Row], arguments) -> list[str]:
    settings = [f"{name} = {cluster.sql(f'SHOW {name}')}" for name in SETTINGS]
    versions = {row.design.version() for row in rows if not row.absent}
    generators = {
        first_line(["wrk", "-v"]).split(" Copyright")[0],
        first_line([str(Oha.program), "--version"]),
    }
    return [
        (
            f"{machine()}. On core {SERVER_CORE}: web side, queue and workers, and the database. On "
            f"core {LOAD_CORE}: the load generator."
        ),
        f"PostgreSQL as initdb makes it: {', '.join(settings)}. A pool has {POOL} connections.",
        f"Requests a second: wrk, {arguments.connections} connections, each waits for its reply, "
        f"{arguments.seconds:g} s. Latency: oha at "
        f"{arguments.rate}/s for all alike, counted from when a request was due. Rounds: {arguments.rounds}, medians.",
        *sorted({cluster.sql("SELECT split_part(version(), ' on ', 1)"), *versions, *generators}),
        "",
    ]


def table(rows: list[Row]) -> list[str]:
    columns = [
        "path",
        "sustained/s",
        "spread",
        "to INSERT",
        "while sending/s",
        "drained after",
        "p50",
        "p99",
        "CPU/request, web",
        "database",
        "disk bytes/request",
        "OK means",
    ]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    direct = next((row.sustained for row in rows if isinstance(row.design, Direct) and row.turns), None)
    lines += [f"| {' | '.join(cells(row, direct))} |" for row in rows]
    synced = next(
        (row.sustained for row in rows if isinstance(row.design, LoadedFromSynced) and row.turns), None
    )
    if direct and synced:
        ratio = synced / direct
        verdict = "met" if round(ratio, 2) >= GOAL else "**missed**"
        lines += [
            "",
            (
                f"Goal: the whole path, synced, sustains at least {GOAL} times the requests of an "
                f"INSERT each: {ratio:.2f}, {verdict}."
            ),
        ]
    return lines


def cells(row: Row, direct: float | None) -> list[str]:
    if row.absent:
        return [row.design.name, f"absent: {row.absent}", *[""] * 10]
    each = lambda of: row.mid(lambda turn: of(turn) / turn.sent.requests)
    return [
        row.design.name,
        f"{row.sustained:,.0f}",
        f"{row.spread:.0%}",
        f"{row.sustained / direct:.2f}" if direct else "",
        f"{row.mid(lambda turn: turn.sent.rate):,.0f}",
        f"{row.mid(lambda turn: turn.drain_s):.1f} s",
        duration(row.mid(lambda turn: turn.paced.p50_us)),
        duration(row.mid(lambda turn: turn.paced.p99_us)),
        f"{each(lambda turn: turn.web_cpu_s * 1e6):.1f} us",
        f"{each(lambda turn: turn.database_cpu_s * 1e6):.1f} us",
        f"{each(lambda turn: turn.disk_bytes):,.0f}",
        row.design.durable,
    ]


def picture(rows: list[Row]) -> str:
    """Draws the sustained rate of each design."""
    bars = [
        (row.design.name, row.sustained, "ours" if isinstance(row.design, Loaded) else "peer")
        for row in rows
        if row.turns
    ]
    return svg.bars(
        "Requests that become rows of PostgreSQL, until the last row is there",
        "requests/s",
        {"sustained": bars},
        names_width=310,
    )
