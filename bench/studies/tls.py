"""TLS beside nginx and h2o: `bench/study.py tls [--only PART] [--rounds N]`.

The parts:

    handshakes  a new connection and a full handshake for each request (ab)
    fixed       a fixed reply on kept connections, with TLS and without (wrk)
    files       a file of 64 KiB or 256 KiB on kept connections (wrk)
    idle        resident memory of an idle connection after one request

All servers have one certificate for ECDSA with P-256, and the ciphers and tickets of their defaults. The
figure is the processor time of the server, except for `idle`. Ratios are medians of the rounds, with bounds
for the median of all possible rounds.
"""

import argparse
import resource
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from lib.load import Ab, Load, Wrk
from lib.packages import install_packages, tell
from lib.paired import share_of
from lib.report import machine
from lib.servers import H2o, Nginx, Server, Tollgate
from lib.sites import Site, make_site, path_of
from lib.usage import memory_mib_of, process_tree

WARMUP_S = 1.0
PARTS = ["handshakes", "fixed", "files", "idle"]
FILES = ["64 KiB", "256 KiB"]
#: Clients of `handshakes` that connect at the same time.
HANDSHAKES_AT_ONCE = 16
REQUEST = b"GET /fixed HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: The highest figures beside nginx, and the highest cost of TLS for a fixed reply.
GOALS = {"handshakes": 0.6, "files": 1.15}
FIXED_GOAL_US = 1.5
IDLE_GOAL_KIB = 14


class TlsSite(Site):
    """A server with one address without TLS, and one with TLS."""

    @property
    def tls_port(self) -> int:
        return self.port + 100

    def substitutions(self):
        return super().substitutions() | {"@TLSPORT@": str(self.tls_port)}

    def prepare(self):
        super().prepare()
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
                *(
                    "-nodes",
                    "-days",
                    "30",
                    "-subj",
                    "/CN=localhost",
                    "-addext",
                    "subjectAltName=DNS:localhost",
                ),
                *("-keyout", "key.pem", "-out", "cert.pem"),
            ],
            cwd=self.folder,
            check=True,
            capture_output=True,
        )


class OursOverTls(TlsSite, Tollgate):
    configuration = ("tls-tollgate.toml", "tollgate.toml")


class NginxOverTls(TlsSite, Nginx):
    name = "nginx"
    configuration = ("tls-nginx.conf", "nginx.conf")
    packages = ("nginx-light",)


class H2oOverTls(TlsSite, H2o):
    configuration = ("tls-h2o.conf", "h2o.conf")


SERVERS: list[type[TlsSite]] = [OursOverTls, NginxOverTls, H2oOverTls]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=2000, help="connections of `idle`")
    arguments = parser.parse_args()
    install_packages({"openssl", *Wrk.packages, *Ab.packages}.union(*(one.packages for one in SERVERS)))
    tell(machine())
    with tempfile.TemporaryDirectory(prefix="tollgate-tls-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        Site.site = folder / "site"
        Site.site.mkdir()
        make_site(Site.site, 0, 0)
        for part in [arguments.only] if arguments.only else PARTS:
            tell(f"\n## {part}\n")
            globals()[f"study_{part}"](folder, arguments)


def study_handshakes(folder: Path, arguments):
    load = Ab("/fixed", connections=HANDSHAKES_AT_ONCE, scheme="https")
    compare(folder, arguments, load, "CPU per full handshake and its request", GOALS["handshakes"])


def study_files(folder: Path, arguments):
    for size in FILES:
        compare(folder, arguments, Wrk(path_of(size), scheme="https"), f"CPU per {size}", GOALS["files"])


def study_fixed(folder: Path, arguments):
    ways = {"http": [], "https": []}
    for _ in range(arguments.rounds):
        for scheme, costs in ways.items():
            costs.append(
                cpu_us(OursOverTls(folder / "ours"), Wrk("/fixed", scheme=scheme), arguments.seconds)
            )
    further = [tls - plain for plain, tls in zip(ways["http"], ways["https"], strict=True)]
    tell(
        f"without TLS {median(ways['http']):.2f} us, with TLS {median(ways['https']):.2f} us: "
        f"{median(further):+.2f} us ({min(further):+.2f} to {max(further):+.2f}), goal +{FIXED_GOAL_US} us"
    )


def study_idle(folder: Path, arguments):
    count = arguments.connections
    # Tollgate needs descriptors for files and workers too.
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 6000, 2 * count + 6000))
    for server_class in SERVERS:
        server = server_class(folder / "idle")
        server.start()
        try:
            tell(f"{server.name}: {idle_kib(server, count):.1f} KiB a connection, goal {IDLE_GOAL_KIB} KiB")
        finally:
            server.stop()


def compare(folder: Path, arguments, load: Load, title: str, goal: float):
    """Prints the processor time of each server, and the share of each peer."""
    costs: dict[type[TlsSite], list[float]] = {one: [] for one in SERVERS}
    for _ in range(arguments.rounds):
        for one, found in costs.items():
            found.append(cpu_us(one(folder / one.__name__), load, arguments.seconds))
    ours, *peers = costs.items()
    tell(f"{title}: {ours[0].name} {median(ours[1]):.1f} us")
    for peer, theirs in peers:
        bound = f", goal {goal}" if peer is NginxOverTls else ""
        tell(f"  {peer.name} {median(theirs):.1f} us: {share_of(ours[1], theirs)}{bound}")


def cpu_us(server: TlsSite, load: Load, seconds: float) -> float:
    """Returns the processor time of the server for each request."""
    port = server.tls_port if load.scheme == "https" else server.port
    server.start()
    try:
        load.run(port, WARMUP_S)
        before = server.cpu_s()
        figures = load.run(port, seconds)
        spent = server.cpu_s() - before
    finally:
        server.stop()
    if figures.errors > max(load.connections, figures.requests * 0.0001):
        raise RuntimeError(f"{server.name}: {figures.errors} of {figures.requests} requests failed")
    return spent / figures.requests * 1e6


def idle_kib(server: TlsSite, count: int) -> float:
    """Returns the resident memory of each connection."""
    context = ssl.create_default_context(cafile=str(server.folder / "cert.pem"))
    # The first connections fill what all share.
    kept = [connected(server, context) for _ in range(100)]
    before = resident_kib(server)
    kept += [connected(server, context) for _ in range(count)]
    after = resident_kib(server)
    for peer in kept:
        peer.close()
    return (after - before) / count


def connected(server: TlsSite, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Returns a connection after its first reply."""
    plain = socket.create_connection((server.host, server.tls_port))
    peer = context.wrap_socket(plain, server_hostname="localhost")
    peer.sendall(REQUEST)
    if not peer.recv(65536).startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"{server.name} does not reply 200")
    return peer


def resident_kib(server: Server) -> float:
    return sum(memory_mib_of(pid) * 1024 for pid in process_tree(server.process.pid))
