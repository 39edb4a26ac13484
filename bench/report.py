"""The report: tables and pictures from the rows of all cases."""

import os
import platform
from datetime import datetime, timezone
from pathlib import Path

import svg
from case import Case, Row

from servers import LOAD_CORE, SERVER_CORE, Tollgate, first_line


def write(folder: Path, results: dict[str, tuple[Case, list[Row]]], limits: dict[str, float], settings: dict) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    parts = [head(results, limits, settings)]
    for name, (case, rows) in results.items():
        (folder / f"{name}.svg").write_text(picture(case, rows))
        parts.append(section(name, case, rows))
    target = folder / "report.md"
    target.write_text("\n".join(parts))
    return target


def head(results, limits, settings) -> str:
    servers = {server.__base__ if issubclass(server, Tollgate) and server is not Tollgate else server
               for case, _ in results.values() for server in [*case.servers, case.limit] if server}
    versions = sorted({server(Path("/nonexistent")).version() for server in servers} - {""})
    generators = [first_line(["wrk", "-v"]).split(" Copyright")[0], first_line(["ab", "-V"]).strip("<>"), "oha"]
    lines = [
        "# Tollgate beside its peers",
        "",
        f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, {machine()}. Server on core {SERVER_CORE}, load generator on core "
        f"{LOAD_CORE}, over loopback. {settings['rounds']} rounds, in each of them all rows one after the other, {settings['seconds']:g} s "
        f"a run after {1:g} s of warm-up; medians, with half of the range as spread. {settings['took_s'] / 60:.0f} minutes in all.",
        "",
        "Ratios are the result. Absolute figures are those of this machine in this hour.",
        "",
        "Every server's reply is compared before each run, and the records of each run are counted after it.",
        "",
        "Repeat: `make bench`, or `make bench CASE=recorded` for one case. Configurations: `bench/peers/`.",
        "",
        *(f"- {version}" for version in [*versions, *generators]),
        "",
        "Limits of the machine, on the server's core:",
        "",
        *(f"- {name}: {rate:,.0f}" for name, rate in limits.items()),
        "",
    ]
    return "\n".join(lines)


def machine() -> str:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}"


def section(name: str, case: Case, rows: list[Row]) -> str:
    lines = [f"## {case.title}", "", case.text, "", f"![{case.title}]({name}.svg)", ""]
    for label, load in case.loads.items():
        lines += [f"**{label}** ({load.generator})", "", *table(case, [row for row in rows if row.load == label]), ""]
    return "\n".join(lines)


def table(case: Case, rows: list[Row]) -> list[str]:
    recorded = case.records_per_request > 0
    columns = ["server", "requests/s", "spread", "CPU/request", "p50", "p99", "p99.9", "to best peer", "of limit"]
    columns += ["a reply promises", "bytes/record", "lag at the end"] if recorded else []
    peers = [row for row in rows if is_peer(case, row)]
    best = max((row.rate for row in peers), default=None)
    limit = next((row.rate for row in rows if row.server is case.limit), None)
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join(["---"] * len(columns)) + " |"]
    return lines + ["| " + " | ".join(cells(case, row, best, limit, recorded)) + " |" for row in rows]


def is_peer(case: Case, row: Row) -> bool:
    return row.server is not case.limit and not issubclass(row.server, Tollgate)


def cells(case: Case, row: Row, best: float | None, limit: float | None, recorded: bool) -> list[str]:
    p999 = "max " if case.loads[row.load].generator == "ab" else ""
    found = [
        row.server.name,
        f"{row.rate:,.0f}",
        f"{row.spread:.0%}",
        f"{row.cpu_us:.2f} us",
        duration(row.mid(lambda turn: turn.figures.p50_us)),
        duration(row.mid(lambda turn: turn.figures.p99_us)),
        p999 + duration(row.mid(lambda turn: turn.figures.p999_us)),
        verdict(row, best) if not is_peer(case, row) and row.server is not case.limit else "",
        f"{row.rate / limit:.0%}" if limit else "",
    ]
    if recorded:
        is_limit = row.server is case.limit
        found += ["" if is_limit else row.server.durable, "" if is_limit else f"{row.mid(lambda turn: turn.bytes_per_record):.0f}", lag(row)]
    return found


def verdict(row: Row, best: float | None) -> str:
    if not best:
        return ""
    ratio = row.rate / best
    return f"**{ratio:.2f}x**" if ratio >= 1 else f"{ratio:.2f}x (lost)"


def lag(row: Row) -> str:
    if row.turns[0].lag_s is None:
        return ""
    return f"{row.mid(lambda turn: turn.pending):,.0f} records, {row.mid(lambda turn: turn.lag_s):.1f} s"


def duration(us: float) -> str:
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.1f} ms" if us < 1e6 else f"{us / 1e6:.1f} s"


def picture(case: Case, rows: list[Row]) -> str:
    groups = {label: [row for row in rows if row.load == label] for label in case.loads}
    bars = {label: [(row.server.name, row.rate, kind(case, row)) for row in group] for label, group in groups.items()}
    return svg.bars(case.title, "requests/s", bars)


def kind(case: Case, row: Row) -> str:
    if row.server is case.limit:
        return "limit"
    return "ours" if issubclass(row.server, Tollgate) else "peer"
