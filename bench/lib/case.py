"""A case: the same work for several servers, run in turns, and its results."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from lib.load import Figures, Load
from lib.servers import Server, SyncLoop, Tollgate

WARMUP_S = 1.0


@dataclass(frozen=True)
class Probe:
    """One request that every server must answer with this reply."""

    method: str
    path: str
    expect: bytes
    body: bytes | None = None


@dataclass(frozen=True)
class Case:
    """A case. Each load runs against each server. `limit` names the server that is a limit and no peer."""

    title: str
    text: str
    loads: dict[str, Load]
    servers: list[type[Server]]
    probe: Probe
    limit: type[Server] | None = None
    #: Loops that are compared with the servers, by load.
    loops: dict[str, list[type[SyncLoop]]] = field(default_factory=dict)
    #: Records that one request makes. 0: nothing is recorded.
    records_per_request: int = 0
    #: The reason why some rows of Tollgate are below one, if there are any.
    lost: str = ""


@dataclass
class Turn:
    """One server under one load, once."""

    figures: Figures
    cpu_us: float
    bytes_per_record: float = 0.0
    lag_s: float | None = None
    pending: int | None = None


@dataclass
class Row:
    """The rounds of one server under one load."""

    load: str
    server: type[Server]
    turns: list[Turn] = field(default_factory=list)

    def each(self, of) -> list[float]:
        return [of(turn) for turn in self.turns]

    def mid(self, of) -> float:
        return median(self.each(of))

    @property
    def rates(self) -> list[float]:
        return self.each(lambda turn: turn.figures.rate)

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def spread(self) -> float:
        """Returns half of the range of the rates, as a share of their median."""
        return (max(self.rates) - min(self.rates)) / 2 / self.rate if self.rate else 0.0

    @property
    def cpu_us(self) -> float:
        return self.mid(lambda turn: turn.cpu_us)

    @property
    def p99_us(self) -> float:
        return self.mid(lambda turn: turn.figures.p99_us)


def run_case(case: Case, folder: Path, rounds: int, seconds: float, tell) -> list[Row]:
    """Runs all rows of a case in each round, so that a noisy minute affects all of them."""
    rows = [Row(label, server) for label in case.loads for server in case.servers]
    if case.limit:
        rows += [Row(label, case.limit) for label in case.loads]
    rows += [Row(label, loop) for label, loops in case.loops.items() for loop in loops]
    for number in range(rounds):
        for row in rows:
            turn = take_turn(case, row, folder, seconds)
            row.turns.append(turn)
            tell(
                f"  {number + 1}/{rounds}  {row.load:24} {row.server.name:26} "
                f"{turn.figures.rate:10.0f}/s {turn.cpu_us:7.2f} us"
            )
    return rows


def take_turn(case: Case, row: Row, folder: Path, seconds: float) -> Turn:
    load = case.loads[row.load]
    server = row.server(folder / row.server.__name__)
    if isinstance(server, SyncLoop):
        return Turn(Figures(round(server.run(seconds) * seconds), seconds, 0, 0, 0, 0), 0)
    server.start()
    try:
        if row.server is not case.limit:
            check_reply(case.probe, server)
        asked = load.run(server.port, WARMUP_S)
        before = server.cpu_s()
        figures = load.run(server.port, seconds)
        turn = Turn(figures, (server.cpu_s() - before) / max(figures.requests, 1) * 1e6)
        if isinstance(server, Tollgate) and server.loads:
            turn.pending, turn.lag_s = wait_until_loaded(server)
    finally:
        server.stop()
    refused = asked.errors + figures.errors
    if refused > max(load.connections, figures.requests * 0.0001):
        raise RuntimeError(f"{server.name}, {row.load}: {refused} of {figures.requests} requests failed")
    if case.records_per_request and row.server is not case.limit:
        count_records(case, server, load, asked.requests + figures.requests, turn)
    return turn


def check_reply(probe: Probe, server: Server):
    found = server.ask(probe.method, probe.path, probe.body)
    if found != (200, probe.expect):
        raise RuntimeError(f"{server.name} replies {found}, expected {(200, probe.expect)}")


def count_records(case: Case, server: Server, load: Load, answered: int, turn: Turn):
    """Checks that each answered request has its records.

    A request that a generator gave up at its end may have records or not.
    """
    records = server.records()
    least = answered * case.records_per_request
    most = (answered + 1 + 2 * load.connections * load.depth) * case.records_per_request
    if not least <= records <= most:
        raise RuntimeError(
            f"{server.name}: {records} records for {answered} replies, expected {least} to {most}"
        )
    turn.bytes_per_record = server.bytes_on_disk() / max(records, 1)


def wait_until_loaded(server: Tollgate) -> tuple[int, float]:
    """Returns the records that were not loaded when the load ended, and the seconds until they were."""
    begun = time.monotonic()
    pending = server.audit().get("pending", 0)
    while server.audit().get("pending", 0) > 0:
        if time.monotonic() - begun > 120:
            raise RuntimeError("rows are not loaded in two minutes")
        time.sleep(0.05)
    return pending, time.monotonic() - begun if pending else 0.0
