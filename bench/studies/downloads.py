"""Files by sendfile, by plain writes and by other servers: `bench/study.py downloads [--only PART]`.

The parts:

    riddle    50 clients fetch one file of 64 KiB or 256 KiB, on kept connections (wrk) or a new one each (ab)
    halved    the same, but the server has half of its core, so that the server limits the rate
    sizes     each size from 1 KiB to 1 MiB, with sendfile and without
    packets   a bare loop sends files about the size of the longest packet, by sendfile and from memory
    cold      a client of a small file, while others fetch files that are not in memory (as root)

Packets have at most 64 KiB, as on loopback, or at most `--mtu` bytes. With `--hosts` the server and the
clients have separate networks, with a cable between them. Both options need root. Writes `downloads.md` and
`downloads.svg`.
"""

import argparse
import random
import subprocess
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from lib import svg
from lib.case import WARMUP_S, Row, Turn
from lib.facts import constant
from lib.load import Ab, Figures, Load, Wrk
from lib.network import CONGESTION, loopback, two_hosts
from lib.packages import install_packages, tell
from lib.paired import share_of
from lib.report import duration, machine
from lib.servers import BENCH, LOAD_CORE, ROOT, SERVER_CORE, Server, first_line, loops
from lib.sites import (
    NGINX_DEFERRED,
    OURS,
    OURS_DEFERRED,
    OURS_IN_EACH_WAY,
    OURS_WRITING,
    PEERS,
    SERVERS,
    SIZES,
    Site,
    loop_of,
    make_site,
    path_of,
)
from lib.usage import idle_s_of, user_and_system_s_of

CLIENTS = 50
RIDDLE = ["64 KiB", "256 KiB"]
#: The MTU of Ethernet.
MTU_OF_HOSTS = 1500
COLD_FILES, COLD_BYTES = 400, 2 << 20
COLD_CLIENTS = 20
FETCH = BENCH / "peers/fetch.py"
#: The peers of the halves, each in its fastest configuration.
HALVED_PEERS = ["nginx, tcp_nopush off", "nginx, deferred", "lighttpd", "h2o"]
COLD_SERVERS = ["tollgate", "tollgate, sendfile off", "nginx", "lighttpd", "h2o"]
#: Bytes of a file, at most, that Tollgate sends from memory in one write, with or without sendfile.
HELD_BYTES_MAX = constant("source.rs", "CONTENT_BYTES_MAX", "u64")
#: KiB of a file, and the number of such files that are sent in turns. A file of 64 KiB needs a second packet,
#: because its head is sent too.
ABOUT_A_PACKET = [(32, 1), (48, 1), (63, 1), (64, 1), (72, 1), (96, 1), (64, 8), (64, 16), (64, 100)]
#: The shortest delay of an acknowledgement in Linux.
TRAP_US = 40_000


@dataclass
class FileTurn(Turn):
    user_us: float = 0.0
    system_us: float = 0.0
    #: Processor time of all processes on the core of the server, and on both cores. The time includes the
    #: kernel's processing of packets, which belongs to no process.
    server_core_us: float = 0.0
    both_us: float = 0.0


#: The figures that compare servers, and whether a figure is a cost. A lower cost is better.
FIGURES = [
    ("requests/s", lambda turn: turn.figures.rate, False),
    ("CPU per request", lambda turn: turn.cpu_us, True),
    ("server's core per request", lambda turn: turn.server_core_us, True),
    ("both cores per request", lambda turn: turn.both_us, True),
]


class FileRow(Row):
    """The rounds of one server under one load, with figures per request."""

    @property
    def user_us(self) -> float:
        return self.mid(lambda turn: turn.user_us)

    @property
    def system_us(self) -> float:
        return self.mid(lambda turn: turn.system_us)

    @property
    def server_core_us(self) -> float:
        return self.mid(lambda turn: turn.server_core_us)

    @property
    def both_us(self) -> float:
        return self.mid(lambda turn: turn.both_us)

    @property
    def mean_us(self) -> float:
        """Uses Little's law: every client has a request in flight at any time."""
        return CLIENTS / self.rate * 1e6


def main():
    arguments = parse()
    install_packages(
        set(Wrk.packages)
        | set(Ab.packages)
        | {"util-linux", "iproute2"}.union(*(server.packages for server in SERVERS))
    )
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    with (
        network(arguments),
        tempfile.TemporaryDirectory(prefix="tollgate-downloads-", dir=arguments.folder) as name,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        Site.site = folder / "site"
        Site.site.mkdir()
        make_site(Site.site, COLD_FILES, COLD_BYTES)
        lines = head(arguments)
        parts = {"riddle": riddle, "halved": halved, "sizes": sizes, "packets": packets, "cold": cold}
        for part, run in parts.items():
            if arguments.only in (None, part):
                lines += run(folder, arguments, out)
    (out / "downloads.md").write_text("\n".join(lines))
    print("\n".join(lines))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds",
        type=int,
        default=6,
        help="how often each row is run; fewer than six cannot separate two servers",
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="how long one run takes")
    parser.add_argument(
        "--beside",
        action="append",
        choices=[server.name for server in PEERS],
        help="one of the peers of --only riddle, instead of all",
    )
    parser.add_argument("--only", choices=["riddle", "halved", "sizes", "packets", "cold"], help="this part")
    parser.add_argument(
        "--out", default=str(ROOT / "target/bench/downloads"), help="the folder of the report"
    )
    parser.add_argument("--folder", help="folder of the files; without memory the study measures its disk")
    parser.add_argument(
        "--mtu", type=int, help="the longest packet of a network of its own: 1500 is that of Ethernet"
    )
    parser.add_argument(
        "--hosts",
        action="store_true",
        help=f"a host each for server and clients, with packets of {MTU_OF_HOSTS:,} bytes unless --mtu says others",
    )
    parser.add_argument(
        "--congestion",
        help=(
            f"with --hosts, instead of {CONGESTION}: how the server avoids congestion, as `sysctl "
            "net.ipv4.tcp_allowed_congestion_control` has it"
        ),
    )
    arguments = parser.parse_args()
    if arguments.hosts and arguments.only != "riddle":
        parser.error(
            "--hosts is for --only riddle: other parts have clients of their own, on the host of the server"
        )
    if arguments.congestion and not arguments.hosts:
        parser.error("--congestion is for --hosts: loopback has that of the system")
    if arguments.beside and arguments.only != "riddle":
        parser.error("--beside is for --only riddle")
    if arguments.hosts:
        arguments.mtu = arguments.mtu or MTU_OF_HOSTS
        arguments.congestion = arguments.congestion or CONGESTION
    return arguments


def network(arguments) -> AbstractContextManager[None]:
    if arguments.hosts:
        return two_hosts(arguments.mtu, arguments.congestion)
    return loopback(arguments.mtu) if arguments.mtu else nullcontext()


def riddle(folder: Path, arguments, out: Path) -> list[str]:
    beside = [server for server in PEERS if server.name in arguments.beside] if arguments.beside else PEERS
    rows = take_turns(LOADS, [*OURS_IN_EACH_WAY, *beside], folder, arguments)
    picture = {
        label: {row.server.name: [("user", row.user_us), ("system", row.system_us)] for row in of_label}
        for label, of_label in rows.items()
    }
    (out / "downloads.svg").write_text(svg.grouped_stacks("Processor time of one request", "us", picture))
    hosts = ", a host each" if arguments.hosts else ""
    longest = f", packets of at most {arguments.mtu:,} bytes" if arguments.mtu else ""
    lines = [
        f"## 50 clients, one file{hosts}{longest}",
        "",
        "![Processor time of one request](downloads.svg)",
        "",
    ]
    for label, of_label in rows.items():
        lines += [f"### {label}", "", *table(of_label), "", *goals(of_label), ""]
    return lines


WAYS = {"kept connections": Wrk, "a connection for each request": Ab}
LOADS = {f"{size}, {way}": kind(path_of(size), CLIENTS) for size in RIDDLE for way, kind in WAYS.items()}


def halved(folder: Path, arguments, _out: Path) -> list[str]:
    peers = [server for server in SERVERS if server.name in HALVED_PEERS]
    with loops([SERVER_CORE]):
        rows = take_turns(LOADS, [OURS, *peers], folder, arguments)
    lines = [
        "## 50 clients, one file, half of a core",
        "",
        "If server and clients have a core each, the clients usually use all of their core and limit the "
        "rate. In this section a busy loop shares the core of the server, so the server limits the rate. "
        "The table has requests/s, and our ratio to each peer:",
        "",
        f"| | tollgate | {' | '.join(server.name for server in peers)} |",
        f"|{' --- |' * (len(peers) + 2)}",
    ]
    for label, (ours, *others) in rows.items():
        cells = [f"{row.rate:,.0f}, {share_of(ours.rates, row.rates)}" for row in others]
        lines.append(f"| {label} | {ours.rate:,.0f} | {' | '.join(cells)} |")
    return [*lines, ""]


def sizes(folder: Path, arguments, _out: Path) -> list[str]:
    loads = {size: Wrk(path_of(size), CLIENTS) for size in SIZES}
    rows = take_turns(loads, [OURS, OURS_WRITING], folder, arguments)
    lines = [
        "## With sendfile and without, by size",
        "",
        "| size | requests/s | sendfile off | ratio | CPU | sendfile off | ratio |",
        f"|{' --- |' * 7}",
    ]
    for size, (ours, writing) in rows.items():
        lines.append(
            f"| {size} | {ours.rate:,.0f} | {writing.rate:,.0f} | {ours.rate / writing.rate:.2f} "
            f"| {ours.cpu_us:.1f} us | {writing.cpu_us:.1f} us | {ours.cpu_us / writing.cpu_us:.2f} |"
        )
    by_sendfile = {size: of for size, of in rows.items() if SIZES[size] > HELD_BYTES_MAX}
    slower = [size for size, (ours, writing) in by_sendfile.items() if ours.cpu_us > writing.cpu_us]
    return [
        *lines,
        "",
        f"Up to {HELD_BYTES_MAX >> 10} KiB both leave from memory by one write: what differs there is noise.",
        "",
        f"Goal: at no size slower than plain writes: {'met' if not slower else '**missed** at ' + ', '.join(slower)}.",
        "",
    ]


def packets(folder: Path, arguments, _out: Path) -> list[str]:
    lines = [
        "## A bare loop of files, about the size of the longest packet",
        "",
        "On kept connections, by sendfile and by one write from memory of head and content:",
        "",
        "| KiB | files in turns | requests/s | from memory | CPU | from memory |",
        f"|{' --- |' * 6}",
    ]
    for kib, count in ABOUT_A_PACKET:
        contents = [Site.site / f"{kib}-{number}" for number in range(count)]
        for content in contents:
            content.write_bytes(bytes(kib << 10))
        label, ways = f"{kib} KiB, {count}", [loop_of(way, contents) for way in ("sendfile", "memory")]
        by_sendfile, copied = take_turns({label: Wrk(f"/{kib}-0", CLIENTS)}, ways, folder, arguments)[label]
        lines.append(
            f"| {kib} | {count} | {by_sendfile.rate:,.0f} | {copied.rate:,.0f} | "
            f"{by_sendfile.cpu_us:.1f} us | {copied.cpu_us:.1f} us |"
        )
    return [*lines, "", *asleep_and_awake(folder, arguments)]


def asleep_and_awake(folder: Path, arguments) -> list[str]:
    """Measures the processor time that waking an idle server costs a client."""
    size = "64 KiB"
    loops_of = {
        (way, idle): loop_of(way, [Site.site / path_of(size)[1:]], idle)
        for way in ("sendfile", "memory")
        for idle in ("asleep", "awake")
    }
    rows = take_turns({size: Wrk(path_of(size), CLIENTS)}, list(loops_of.values()), folder, arguments)[size]
    lines = [
        f"In the next table the loop sends one file of {size}. It sleeps while nothing arrives, or stays awake:",
        "",
        "| | requests/s | CPU |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {way}, {idle} | {row.rate:,.0f} | {row.cpu_us:.1f} us |"
        for (way, idle), row in zip(loops_of, rows, strict=True)
    ]
    return [*lines, ""]


def cold(folder: Path, arguments, _out: Path) -> list[str]:
    lines = [
        "## A client of a small file, while others fetch large ones",
        "",
        f"One client fetches a file of 13 bytes on one connection. {COLD_CLIENTS} others fetch "
        f"files of {COLD_BYTES >> 20} MiB: from memory, then "
        "such that are dropped from it before each request.",
        "",
        (
            "| server | alone, p50 | p99 | files in memory, p50 | p99 | sent | files on the disk, p50 | "
            "p99 | p99.9 | sent |"
        ),
        f"|{' --- |' * 10}",
    ]
    for server in (server for server in SERVERS if server.name in COLD_SERVERS):
        instance = server(folder / server.__name__)
        instance.start()
        try:
            alone = probe(instance, arguments.seconds)
            warm, warm_rate = beside_downloads(instance, arguments.seconds)
            cold, cold_rate = beside_downloads(instance, arguments.seconds, "--cold")
        finally:
            instance.stop()
        us = list(
            map(
                duration,
                [
                    alone.p50_us,
                    alone.p99_us,
                    warm.p50_us,
                    warm.p99_us,
                    cold.p50_us,
                    cold.p99_us,
                    cold.p999_us,
                ],
            )
        )
        cells = [server.name, *us[:4], warm_rate, *us[4:], cold_rate]
        lines.append(f"| {' | '.join(cells)} |")
        tell(lines[-1])
    return [*lines, ""]


def probe(server: Server, seconds: float) -> Figures:
    return Wrk("/fixed", connections=1).run(server.port, seconds)


def beside_downloads(server: Server, seconds: float, *how: str) -> tuple[Figures, str]:
    """The figures of a client that requests a small file, and the bytes that the other clients received."""
    fetch = [
        "taskset",
        "-c",
        LOAD_CORE,
        str(FETCH),
        str(server.port),
        str(Site.site / "cold"),
        str(COLD_CLIENTS),
        str(seconds + 1),
        *how,
    ]
    fetching = subprocess.Popen(fetch, stdout=subprocess.PIPE, text=True)
    try:
        figures = probe(server, seconds)
    finally:
        output, _ = fetching.communicate(timeout=60)
    if fetching.returncode != 0:
        raise RuntimeError(f"{server.name}: clients of large files failed")
    return figures, f"{float(output) / (1 << 20):,.0f} MiB/s"


def take_turns(
    loads: dict[str, Load], servers: list[type[Server]], folder: Path, arguments
) -> dict[str, list[FileRow]]:
    """Runs all rows in each round, so that a noisy minute affects all of them.

    Each round has another order, because a row affects the row after it.
    """
    rows = {label: [FileRow(label, server) for server in servers] for label in loads}
    for number in range(arguments.rounds):
        for label, load in loads.items():
            for row in random.Random(number).sample(rows[label], len(servers)):
                row.turns.append(turn := take_turn(row.server, load, folder, arguments.seconds))
                tell(
                    f"  {number + 1}/{arguments.rounds}  {label:28} {row.server.name:24} {turn.figures.rate:10.0f}/s"
                )
    return rows


def take_turn(site: type[Server], load: Load, folder: Path, seconds: float) -> FileTurn:
    server = site(folder / site.__name__)
    server.start()
    try:
        check_reply(server, load.path)
        load.run(server.port, WARMUP_S)
        user_s, system_s = user_and_system_s_of([server.process.pid])
        idle_s, begun = idle_s_of_each(), time.monotonic()
        figures = load.run(server.port, seconds)
        took_s = time.monotonic() - begun
        of_server_s, of_clients_s = (
            took_s - (then - before) for then, before in zip(idle_s_of_each(), idle_s, strict=True)
        )
        user_then_s, system_then_s = user_and_system_s_of([server.process.pid])
    finally:
        server.stop()
    if figures.errors:
        raise RuntimeError(
            f"{server.name}, {load.path}: {figures.errors} of {figures.requests} requests failed"
        )
    spent_s = user_then_s - user_s, system_then_s - system_s, of_server_s, of_server_s + of_clients_s
    user_us, system_us, server_core_us, both_us = (s / figures.requests * 1e6 for s in spent_s)
    return FileTurn(
        figures,
        user_us + system_us,
        user_us=user_us,
        system_us=system_us,
        server_core_us=server_core_us,
        both_us=both_us,
    )


def idle_s_of_each() -> list[float]:
    return [idle_s_of(SERVER_CORE), idle_s_of(LOAD_CORE)]


def check_reply(server: Server, path: str):
    if server.ask("GET", path) != (200, (Site.site / path[1:]).read_bytes()):
        raise RuntimeError(f"{server.name}: {path} has another content than its file")


def head(arguments) -> list[str]:
    way = f"a cable, {arguments.congestion} on the side of the server" if arguments.hosts else "loopback"
    versions = {server(Path("/nonexistent")).version() for server in SERVERS} | {
        first_line(["wrk", "-v"]).split(" Copyright")[0]
    }
    return [
        "# Files",
        "",
        f"{machine()}. Server on core {SERVER_CORE}, clients on core {LOAD_CORE}, over {way}. "
        f"Rounds: {arguments.rounds}, in each of them all rows one after "
        f"the other, {arguments.seconds:g} s a run after {WARMUP_S:g} s of warm-up; medians, and "
        "between two servers the median of what one has of the other "
        "in the same round, with its bounds in 95 of 100 cases. What is sent is compared with the "
        "file before each run.",
        "",
        *(f"- {version}" for version in sorted(versions - {""})),
        "",
    ]


def table(rows: list[FileRow]) -> list[str]:
    columns = [
        "server",
        "requests/s",
        "CPU, user",
        "system",
        "server's core",
        "both cores",
        "mean",
        "p50",
        "p99",
    ]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for row in rows:
        cells = [
            row.server.name,
            f"{row.rate:,.0f}",
            f"{row.user_us:.1f} us",
            f"{row.system_us:.1f} us",
            f"{row.server_core_us:.1f} us",
            f"{row.both_us:.1f} us",
        ]
        cells += map(duration, [row.mean_us, row.mid(lambda turn: turn.figures.p50_us), row.p99_us])
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def goals(rows: list[FileRow]) -> list[str]:
    """Compares Tollgate with the best peer. Each peer has its best configuration.

    The servers with deferred connections, of nginx and of Tollgate, are compared with each other.
    """
    peers = [row for row in rows if row.server in PEERS]
    as_they_are = [row for row in peers if row.server is not NGINX_DEFERRED]
    deferred = [row for row in peers if row.server is NGINX_DEFERRED]
    ours, ours_deferred = (
        next(row for row in rows if row.server is server) for server in (OURS, OURS_DEFERRED)
    )
    return [
        "| figure | compared with | ratio | result |",
        "| --- | --- | --- | --- |",
        *(
            line
            for row, some in ((ours, as_they_are), (ours_deferred, deferred))
            if some
            for line in goals_of(row, some)
        ),
        (
            f"| p99: {duration(ours.p99_us)} | a delayed acknowledgement, 40 ms | | "
            f"{'below' if ours.p99_us < TRAP_US else '**above**'} |"
        ),
    ]


def goals_of(ours: FileRow, peers: list[FileRow]) -> list[str]:
    """Returns each figure of Tollgate as a share of the best peer's figure, and the peers that are ahead.

    For the first two figures, the goal is that no peer is ahead.
    """
    lines = []
    for figure, of, is_cost in FIGURES:
        shares = {row.server.name: share_of(ours.each(of), row.each(of)) for row in peers}
        best = (max if is_cost else min)(shares, key=lambda name: shares[name].middle)
        behind = [
            name
            for name, share in shares.items()
            if (share.is_above_one() if is_cost else share.is_below_one())
        ]
        ahead = shares[best].is_below_one() if is_cost else shares[best].is_above_one()
        standing = f"**behind** {'; '.join(behind)}" if behind else "ahead" if ahead else "no difference"
        lines.append(f"| {figure} | {best} | {shares[best]} | {standing} |")
    return lines
