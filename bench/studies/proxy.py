"""A proxy compared with nginx, and requests that wait for backends: `bench/study.py proxy [--only PART]`.

The proxies run on one core. The backend and the clients run on the other core, over loopback. Each round
measures every proxy in turn, and the backend without a proxy. Then 5,000 requests are in flight on one
worker: a script that waits for two backends, each of which answers after a second. Then 100 requests wait for
50 ms. Writes `proxy.md`.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from lib.case import WARMUP_S, Row, Turn
from lib.load import Wrk
from lib.packages import install_packages, tell
from lib.report import duration, machine
from lib.servers import LOAD_CORE, PEERS, PROGRAM, ROOT, SERVER_CORE, Instance, Server, first_line, metrics_of
from lib.usage import cpu_s_of

FILE_BYTES = 64 << 10
DESCRIPTORS = 40_000


class Backend(Server):
    """The server that answers, on the core of the load generator."""

    name = "no proxy"
    port = 8230
    packages = ("nginx-light",)
    files = {"proxy-backend.conf": "nginx.conf"}

    def prepare(self):
        super().prepare()
        (self.folder / "file.bin").write_bytes(bytes(FILE_BYTES))

    def command(self):
        # The outer command sets another core first. The core in this command replaces it.
        return ["taskset", "-c", LOAD_CORE, "nginx", "-c", str(self.folder / "nginx.conf")]


class Proxy(Server):
    def substitutions(self):
        return super().substitutions() | {"@BACKEND@": str(Backend.port)}


class TollgateProxy(Proxy):
    name = "tollgate"
    port = 8231
    files = {"proxy-tollgate.toml": "tollgate.toml"}

    def command(self):
        return [str(PROGRAM), "serve", str(self.folder), "--no-load"]


class NginxProxy(Proxy):
    name = "nginx"
    port = 8232
    files = {"proxy-nginx.conf": "nginx.conf"}

    def command(self):
        return ["nginx", "-c", str(self.folder / "nginx.conf")]


LOADS = {
    "13 bytes, 64 clients": Wrk("/fixed", 64),
    "64 KiB, 64 clients": Wrk("/file.bin", 64),
}
PROXIES = [TollgateProxy, NginxProxy]


def main():
    arguments = parse()
    install_packages({"nginx-light", "wrk", "util-linux"})
    # The limit of descriptors allows ten thousand connections to backends, and five thousand connections of
    # clients.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{machine()}; {first_line(['nginx', '-v'])}; {arguments.rounds} rounds of "
        f"{arguments.seconds:g} s, medians. Proxy on core {SERVER_CORE}, "
        f"clients and backend on core {LOAD_CORE}.",
        "",
    ]
    with tempfile.TemporaryDirectory(prefix="tollgate-proxy-") as name:
        Path(name).chmod(0o755)
        for part, run in {"proxied": proxied, "waiting": waiting}.items():
            if arguments.only in (None, part):
                lines += run(Path(name), arguments)
    (out / "proxy.md").write_text("\n".join(lines))
    print("\n".join(lines))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each row is run; medians are reported"
    )
    parser.add_argument("--seconds", type=float, default=3, help="how long one run takes")
    parser.add_argument("--only", choices=["proxied", "waiting"], help="this part")
    parser.add_argument("--out", default=str(ROOT / "target/bench/proxy"), help="the folder of the report")
    return parser.parse_args()


def proxied(folder: Path, arguments) -> list[str]:
    backend = Backend(folder / "backend")
    backend.start()
    try:
        rows = {label: [Row(label, server) for server in PROXIES] + [Row(label, Backend)] for label in LOADS}
        for number in range(arguments.rounds):
            for label, load in LOADS.items():
                for row in rows[label]:
                    row.turns.append(take_turn(row.server, load, folder, arguments.seconds, backend))
                    tell(
                        f"  {number + 1}/{arguments.rounds}  {label:24} {row.server.name:12} "
                        f"{row.turns[-1].figures.rate:10.0f}/s"
                    )
    finally:
        backend.stop()
    lines = ["| load | proxy | requests/s | ratio | CPU of a request | p50 | p99 |", f"|{' --- |' * 7}"]
    for label, of_label in rows.items():
        nginx = next(row for row in of_label if row.server is NginxProxy)
        for row in of_label:
            p50 = row.mid(lambda turn: turn.figures.p50_us)
            cpu = f"{row.cpu_us:.1f} us" if row.server is not Backend else ""
            lines.append(
                f"| {label} | {row.server.name} | {row.rate:,.0f} ±{row.spread:.0%} | "
                f"{row.rate / nginx.rate:.2f} | {cpu} "
                f"| {duration(p50)} | {duration(row.p99_us)} |"
            )
    return [*lines, ""]


def take_turn(kind: type[Server], load: Wrk, folder: Path, seconds: float, backend: Backend) -> Turn:
    server = backend if kind is Backend else kind(folder / kind.__name__)
    if server is not backend:
        server.start()
    try:
        load.run(server.port, WARMUP_S)
        before = server.cpu_s()
        figures = load.run(server.port, seconds)
        cpu_us = (server.cpu_s() - before) / max(figures.requests, 1) * 1e6
    finally:
        if server is not backend:
            server.stop()
    if figures.errors:
        raise RuntimeError(f"{server.name}: {figures.errors} of {figures.requests} requests failed")
    return Turn(figures, cpu_us)


SLOW = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
connections_max = 30000
[[route]]
path = "/*"
script = "slow.luau"
"""
ASKING = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
connections_max = 30000
[backend.one]
urls = ["http://127.0.0.1:@BACKEND@"]
concurrency_max = 20000
pool_idle_max = 20000
[backend.two]
urls = ["http://127.0.0.1:@BACKEND@"]
concurrency_max = 20000
pool_idle_max = 20000
[[route]]
path = "/*"
script = "ask.luau"
"""
ASK = """return function(req)
  local all = tollgate.fetch_all{ { backend = "one" }, { backend = "two" } }
  return all[1].body .. all[2].body
end"""


def waiting(folder: Path, arguments) -> list[str]:
    lines = [
        (
            "| in flight | backends answer after | requests/s | median | p99 | errors | memory of a "
            "waiting request | threads | CPU of a request |"
        ),
        f"|{' --- |' * 9}",
    ]
    for clients, period_ms in [(100, 50), (5000, 1000)]:
        lines.append(wait_for(folder, clients, period_ms, max(arguments.seconds, 10 * period_ms / 1000)))
    return [*lines, ""]


def wait_for(folder: Path, clients: int, period_ms: int, seconds: float) -> str:
    slow, asking = folder / f"slow-{clients}", folder / f"asking-{clients}"
    slow.mkdir()
    asking.mkdir()
    answer = f"return function() tollgate.sleep({period_ms / 1000}) return 'ok' end"
    backend = Instance(slow, SLOW, {"slow.luau": answer})
    subprocess.run(
        ["taskset", "-acp", LOAD_CORE, str(backend.process.pid)], check=True, stdout=subprocess.DEVNULL
    )
    server = Instance(asking, ASKING.replace("@BACKEND@", str(backend.port)), {"ask.luau": ASK})
    try:
        before, threads = server.memory_mib(), thread_count(server)
        command = [
            "taskset",
            "-c",
            LOAD_CORE,
            "wrk",
            "-t1",
            f"-c{clients}",
            f"-d{round(seconds)}s",
            "--timeout",
            "20s",
            "-s",
            str(PEERS / "spread.lua"),
            f"http://127.0.0.1:{server.port}/",
            "--",
            str(clients),
            str(period_ms),
        ]
        load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        # All requests are in flight after two periods. Before that, and at the end, fewer replies arrive.
        time.sleep(2.5 * period_ms / 1000)
        rate = answered_per_s(asking, seconds - 4 * period_ms / 1000)
        memory, busy_threads = server.memory_mib(), thread_count(server)
        output = load.communicate()[0]
        cpu_s = cpu_s_of([server.process.pid])
    finally:
        server.stop()
        backend.stop()
    result = json.loads(re.search(r"RESULT (.*)", output)[1])
    each = (memory - before) * 1024 / clients
    tell(f"  {clients} in flight: {result}")
    return (
        f"| {clients:,} | {period_ms} ms | {rate:,.0f} | {duration(result['p50_us'])} "
        f"| {duration(result['p99_us'])} | {result['errors']} | {each:.1f} KiB | {threads} before, "
        f"{busy_threads} under load "
        f"| {cpu_s / max(result['requests'], 1) * 1e6:.0f} us |"
    )


def answered_per_s(folder: Path, seconds: float) -> float:
    """Returns the replies per second in the server's own count, under an even load."""
    before, begun = answered(folder), time.monotonic()
    time.sleep(seconds)
    return (answered(folder) - before) / (time.monotonic() - begun)


def answered(folder: Path) -> int:
    counts = re.findall(r"^tollgate_http_requests_total\{[^}]*\} (\d+)", metrics_of(folder), re.MULTILINE)
    return sum(map(int, counts))


def thread_count(server: Instance) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/task"))
