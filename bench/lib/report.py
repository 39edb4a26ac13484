"""The report: tables and pictures from the rows of all cases."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from lib import goals, svg
from lib.case import WARMUP_S, Case, Row
from lib.load import Oha
from lib.paired import range_of
from lib.servers import LOAD_CORE, SERVER_CORE, SyncLoop, Tollgate, first_line

SYNC_LOOP = "write + fdatasync of 128 bytes, one after the other, times a second"
INSERT_LOOP = "prepared INSERT into SQLite, a thousand to a transaction, rows a second"


def write(
    folder: Path, results: dict[str, tuple[Case, list[Row]]], limits: dict[str, float], settings: dict
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    parts = [head(results, limits, settings), goals.section(results)]
    for name, (case, rows) in results.items():
        (folder / f"{name}.svg").write_text(picture(case, rows))
        parts.append(section(name, case, rows, limits))
    target = folder / "report.md"
    target.write_text("\n".join(part for part in parts if part))
    return target


def head(results, limits, settings) -> str:
    rounds, seconds, took_min = settings["rounds"], settings["seconds"], settings["took_s"] / 60
    lines = [
        "# Tollgate beside its peers",
        "",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}. Server on core {SERVER_CORE}, load generator on core "
        f"{LOAD_CORE}, over loopback. Rounds: {rounds}, in each of them all rows one after the "
        f"other, {seconds:g} s a run after "
        f"{WARMUP_S:g} s of warm-up; medians, with half of the range as spread. {took_min:.0f} minutes in all.",
        "",
        "Ratios are the result: above 1 is better than the best peer, for requests as for processor "
        "time. Absolute figures are "
        "those of this machine in this hour.",
        "",
        "Every server's reply is compared before each run, and the records of each run are counted "
        "after it. wrk and ab wait "
        "for each reply before they send on; latency under a fixed rate is a case of its own.",
        "",
        "Repeat: `make bench`, or `make bench CASE=recorded` for one case. Configurations: `bench/peers/`.",
        "",
        *(f"- {version}" for version in versions(results)),
        "",
        "Limits of the machine, on the server's core:",
        "",
        *(f"- {name}: {rate:,.0f}" for name, rate in limits.items()),
        "",
    ]
    return "\n".join(lines)


def versions(results) -> list[str]:
    servers = {server for case, _ in results.values() for server in [*case.servers, case.limit] if server}
    programs = {server(Path("/nonexistent")).version() for server in servers} - {""}
    generators = {load.generator for case, _ in results.values() for load in case.loads.values()}
    told = {
        "wrk": lambda: first_line(["wrk", "-v"]).split(" Copyright")[0],
        "ab": lambda: "ab " + first_line(["ab", "-V"]).split("Version ")[1].split(" <")[0],
        "oha": lambda: first_line([str(Oha.program), "--version"]),
    }
    return sorted(programs) + [told[generator]() for generator in sorted(generators)]


def machine() -> str:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}"


def section(name: str, case: Case, rows: list[Row], limits: dict[str, float]) -> str:
    lines = [f"## {case.title}", "", case.text, "", f"![{case.title}]({name}.svg)", ""]
    for label, load in case.loads.items():
        of_label = [row for row in rows if row.load == label]
        lines += [
            f"**{label}** ({load.generator})",
            "",
            *table(case, of_label, limits),
            "",
            *beside_before(of_label),
        ]
    return "\n".join([*lines, *([f"Where we are behind: {case.lost}", ""] if case.lost else [])])


def table(case: Case, rows: list[Row], limits: dict[str, float]) -> list[str]:
    """Returns one table for one load. At a fixed rate the ratio compares p99."""
    load = case.loads[rows[0].load]
    compared = "p99" if isinstance(load, Oha) else "requests/s"
    columns = ["server", "requests/s", "spread", "CPU/request", "p50", "p99", "p99.9"]
    columns += [f"{compared} to best peer", "CPU to best peer", "of limit"]
    columns += ["a reply promises", "bytes/record", "lag at the end"] if case.records_per_request else []
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join(["---"] * len(columns)) + " |"]
    return lines + ["| " + " | ".join(cells(case, row, rows, limits)) + " |" for row in rows]


def beside_before(rows: list[Row]) -> list[str]:
    """Compares this build with the earlier build, round by round, in the rows that both were run for."""
    by_name = {row.server.name: row for row in rows}
    pairs = [(row, by_name.get(f"before: {row.server.name}")) for row in rows]
    lines = [
        f"| {row.server.name} | {of_rates(row, old)} | {of_cpu(row, old)} |" for row, old in pairs if old
    ]
    if not lines:
        return []
    return [
        "| this build of the one before, round by round | requests/s | CPU/request |",
        "| --- | --- | --- |",
        *lines,
        "",
    ]


def of_rates(row: Row, other: Row):
    return range_of(row.rates, other.rates)


def of_cpu(row: Row, other: Row):
    cpu_us = lambda turn: turn.cpu_us
    return range_of(row.each(cpu_us), other.each(cpu_us))


def is_peer(case: Case, row: Row) -> bool:
    return row.server is not case.limit and not issubclass(row.server, (Tollgate, SyncLoop))


def cells(case: Case, row: Row, rows: list[Row], limits: dict[str, float]) -> list[str]:
    load = case.loads[row.load]
    found = [
        row.server.name,
        f"{row.rate:,.0f}",
        f"{row.spread:.0%}",
        f"{row.cpu_us:.2f} us",
        duration(row.mid(lambda turn: turn.figures.p50_us)),
        duration(row.p99_us),
        ("max " if load.generator == "ab" else "") + duration(row.mid(lambda turn: turn.figures.p999_us)),
        *ratios(case, row, rows),
        of_limit(case, row, rows, limits),
    ]
    if case.records_per_request:
        is_limit = row.server is case.limit or issubclass(row.server, SyncLoop)
        bytes_per_record = row.mid(lambda turn: turn.bytes_per_record)
        found += [
            "" if is_limit else row.server.durable,
            "" if is_limit else f"{bytes_per_record:.0f}",
            lag(row),
        ]
    return found


def ratios(case: Case, row: Row, rows: list[Row]) -> list[str]:
    peers = [other for other in rows if is_peer(case, other)]
    if not peers or not issubclass(row.server, Tollgate):
        return ["", ""]
    if isinstance(case.loads[row.load], Oha):
        speed = min(peer.p99_us for peer in peers) / row.p99_us
    else:
        speed = row.rate / max(peer.rate for peer in peers)
    return [verdict(speed), verdict(min(peer.cpu_us for peer in peers) / row.cpu_us)]


def verdict(ratio: float) -> str:
    """Returns a ratio as text. A ratio that rounds to less than one is marked as a loss."""
    return f"**{ratio:.2f}x**" if ratio >= 0.995 else f"{ratio:.2f}x (lost)"


def of_limit(case: Case, row: Row, rows: list[Row], limits: dict[str, float]) -> str:
    """Returns the rate as a share of the limit.

    The limit is the bare epoll loop. For a server that loads, it is the insert loop. For one client alone, it
    is the sync loop.
    """
    bare = next((other.rate for other in rows if other.server is case.limit), None)
    if bare:
        return f"{row.rate / bare:.0%}"
    load = case.loads[row.load]
    if not issubclass(row.server, Tollgate) or isinstance(load, Oha):
        return ""
    if row.server.loads:
        return f"{row.rate * case.records_per_request / limits[INSERT_LOOP]:.0%} of INSERT"
    if row.server.ack == "synced" and load.connections * load.depth == 1:
        return f"{row.rate / limits[SYNC_LOOP]:.0%} of fdatasync"
    return ""


def lag(row: Row) -> str:
    if row.turns[0].lag_s is None:
        return ""
    return f"{row.mid(lambda turn: turn.pending):,.0f} records, {row.mid(lambda turn: turn.lag_s):.1f} s"


def duration(us: float) -> str:
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.1f} ms" if us < 1e6 else f"{us / 1e6:.1f} s"


def picture(case: Case, rows: list[Row]) -> str:
    """Draws bars of requests per second, or of p99 if the rate is fixed."""
    is_fixed_rate = any(isinstance(load, Oha) for load in case.loads.values())
    unit, value = (
        ("p99, us", lambda row: row.p99_us) if is_fixed_rate else ("requests/s", lambda row: row.rate)
    )
    groups = {label: [row for row in rows if row.load == label] for label in case.loads}
    bars = {
        label: [(row.server.name, value(row), kind(case, row)) for row in group]
        for label, group in groups.items()
    }
    return svg.bars(case.title, unit, bars)


def kind(case: Case, row: Row) -> str:
    if row.server is case.limit or issubclass(row.server, SyncLoop):
        return "limit"
    return "ours" if issubclass(row.server, Tollgate) else "peer"
