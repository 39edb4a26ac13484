"""Ten thousand hostile clients, and the latency of a normal client: `bench/study.py abuse [--only NAME]`.

The clients of an attack have the addresses 127.0.0.2 to 127.0.0.9. Each attack has several rounds, and each
round has a new server. A normal client sends a thousand requests per second from 127.0.0.1. An attack passes
if two conditions are met in each round. No attacker is connected after the deadline, and the server's memory
stays within its configured bounds. The median ratio of the normal client's p99 must also be below 2.

The attacks on handshakes connect to an address with TLS, and the normal client then uses TLS too. The worker
processes one handshake between two turns of its connections, so the p99 of this client has a bound in
milliseconds. The counter of handshakes must count each attacker.
"""

import argparse
import os
import resource
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lib.servers import LOAD_CORE, Instance

IN_FLIGHT_MIB = 64
#: KiB of an idle connection, and KiB that each connection may hold without being counted in flight.
CONNECTION_KIB = 4 + 4
#: KiB of a connection within its handshake.
HANDSHAKE_KIB = 24
#: Bound for the p99 of the normal client during an attack on handshakes.
HANDSHAKE_P99_US = 20_000
CONFIGURATION = f"""
[server]
listen = ["127.0.0.1:0", {{ address = "127.0.0.1:0", tls = true }}]
workers = 1
in_flight_bytes_max = "{IN_FLIGHT_MIB}MiB"
write_timeout = "5s"
idle_timeout = "8s"
CONNECTIONS
[[certificate]]
file = "server.pem"
key_file = "server.key"
[tls]
handshake_timeout = "5s"
[[route]]
path = "/"
reply = {{ body = "hello" }}
[[route]]
path = "/big"
script = "big.luau"
[[route]]
path = "/take"
script = "take.luau"
"""
SCRIPTS = {
    "big.luau": "local big = string.rep('x', 200000) return function() return big end",
    "take.luau": "return function(req) return tostring(#req:body()) end",
}
ASK = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
PROBES_S = 5
SLICES = 100
#: Seconds by which a deadline may be late: two ticks of the server's sweep, and the delay of a busy machine.
LATE_S = 4


class Attack:
    """The bytes that each client sends first, and then every second until the server cuts it off."""

    #: Result under which the server counts the handshake of each client. None: the attack uses no TLS.
    handshake: str | None = None
    closes_half = False

    def __init__(self, title, first, drip, gone_after_s, connections_max=16384):
        self.title, self.first, self.drip = title, first, drip
        self.gone_after_s, self.connections_max = gone_after_s, connections_max


class HandshakeAttack(Attack):
    """An attack that ends before or within the handshake of TLS."""

    def __init__(self, title, hello_bytes, drip, gone_after_s, handshake, closes_half=False):
        super().__init__(title, hello()[:hello_bytes], drip, gone_after_s)
        self.handshake, self.closes_half = handshake, closes_half


def trusting() -> ssl.SSLContext:
    """Returns a client that accepts any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def hello() -> bytes:
    """Returns the first message of a client of TLS."""
    sent = ssl.MemoryBIO()
    try:
        trusting().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server has ended")


ATTACKS = {
    "heads": Attack("slow heads", ASK[:-2] + b"X: ", b"x", 10),
    "bodies": Attack(
        "slow bodies", b"POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n", b"x", 5
    ),
    "readers": Attack("slow readers", b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n", b"", 5 + 8),
    "idle": Attack("ask once and stay", ASK, b"", 8),
    "flood": Attack("twice as many as may be", ASK, b"", 8, connections_max=5000),
    "silent-handshakes": HandshakeAttack("silent handshakes", 0, b"", 5, "timeout"),
    "slow-handshakes": HandshakeAttack("slow handshakes", 100, b"x", 5, "timeout"),
    "half-closed-handshakes": HandshakeAttack(
        "half-closed handshakes", 100, b"", 1, "closed", closes_half=True
    ),
    "handshakes": HandshakeAttack("hellos without an end", None, b"", 5, "timeout"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=ATTACKS)
    arguments = parser.parse_args()
    limit = arguments.clients + 1000
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (limit, max(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    )
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    print(
        "| attack | clients | gone after | 408 | 503 | closed | memory, MiB | p99 before | p99 meanwhile | times |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    failures = []
    for name, attack in ATTACKS.items():
        if arguments.only in (None, name):
            rounds = [run(attack, arguments.clients) for _ in range(arguments.rounds)]
            failures += judge(attack, arguments.clients, rounds)
    if failures:
        sys.exit("\n".join(failures))


@dataclass
class Round:
    """One attack, and its results."""

    gone_after_s: float
    grown_mib: float
    before_us: float
    meanwhile_us: float
    #: Handshakes that the server counted with the result of the attack.
    counted: int

    def times(self) -> float:
        return self.meanwhile_us / self.before_us


def run(attack: Attack, clients: int) -> Round:
    with tempfile.TemporaryDirectory(prefix="tollgate-abuse-") as folder:
        make_certificate(Path(folder))
        configuration = CONFIGURATION.replace("CONNECTIONS", f"connections_max = {attack.connections_max}")
        server = Instance(Path(folder), configuration, SCRIPTS)
        try:
            return measure(attack, clients, server)
        finally:
            server.stop()


def make_certificate(folder: Path):
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    command = ["openssl", *options.split(), "-keyout", "server.key", "-out", "server.pem"]
    subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)


def measure(attack: Attack, clients: int, server: Instance) -> Round:
    before_us = Normal(server, attack).p99_us(seconds=PROBES_S)
    idle_mib = server.memory_mib()
    normal = Normal(server, attack)
    normal.start()
    peers = Peers(attack, clients, server)
    gone_after_s = peers.drip_until_gone()
    meanwhile_us = normal.p99_us()
    counted = server.sample(f'tollgate_tls_handshakes_total{{result="{attack.handshake}"}}')
    came = Round(gone_after_s, peers.memory_mib_max - idle_mib, before_us, meanwhile_us, counted)
    heard = peers.heard
    print(
        f"| {attack.title} | {clients} | {gone_after_s:.1f} s | {heard['408']} | {heard['503']} | {heard['']} "
        f"| {came.grown_mib:.0f} | {before_us:.0f} us | {came.meanwhile_us:.0f} us | {came.times():.2f} |",
        flush=True,
    )
    return came


def judge(attack: Attack, clients: int, rounds: list[Round]) -> list[str]:
    """Returns the conditions that failed."""
    times = statistics.median(came.times() for came in rounds)
    print(f"| {attack.title}, median | | | | | | | | | {times:.2f} |", flush=True)
    kib = HANDSHAKE_KIB if attack.handshake else CONNECTION_KIB
    bound_mib = IN_FLIGHT_MIB + clients * kib / 1024
    failures = []
    for came in rounds:
        if came.gone_after_s > attack.gone_after_s + LATE_S:
            failures.append(
                f"{attack.title}: gone after {came.gone_after_s:.1f} s, deadline {attack.gone_after_s} s"
            )
        if came.grown_mib > bound_mib:
            failures.append(
                f"{attack.title}: memory grew by {came.grown_mib:.0f} MiB, bound {bound_mib:.0f} MiB"
            )
        if attack.handshake and came.counted != clients:
            failures.append(f"{attack.title}: {came.counted} handshakes were counted as {attack.handshake}")
        if attack.handshake and came.meanwhile_us > HANDSHAKE_P99_US:
            failures.append(
                f"{attack.title}: the p99 is {came.meanwhile_us:.0f} us, bound {HANDSHAKE_P99_US} us"
            )
    if times >= 2 and not attack.handshake:
        failures.append(
            f"{attack.title}: the p99 is {times:.2f} times what it was before, by the median of {len(rounds)} rounds"
        )
    return failures


class Peers:
    """All clients of an attack."""

    def __init__(self, attack: Attack, count: int, server: Instance):
        self.attack, self.server = attack, server
        self.is_reader = attack is ATTACKS["readers"]
        self.idle_descriptors = server.descriptors()
        self.heard = {"408": 0, "503": 0, "": 0, "200": 0}
        self.memory_mib_max = 0.0
        self.slices = [[] for _ in range(SLICES)]
        for index in range(count):
            self.slices[index % SLICES].append(self.open(index))

    def open(self, index: int) -> list:
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.bind((f"127.0.0.{2 + index % 8}", 0))
        peer.connect(("127.0.0.1", port_for(self.server, self.attack)))
        peer.setblocking(False)
        send(peer, self.attack.first)
        if self.attack.closes_half:
            peer.shutdown(socket.SHUT_WR)
        return [peer, b""]

    def drip_until_gone(self) -> float:
        """Sends for one slice of the clients every 10 ms, so that each client sends once a second."""
        begun = due = time.monotonic()
        while any(self.slices) and not self.has_none_left(begun):
            for index, part in enumerate(self.slices):
                self.slices[index] = [client for client in part if not self.is_gone(client)]
                due += 1 / SLICES
                time.sleep(max(0, due - time.monotonic()))
            self.memory_mib_max = max(self.memory_mib_max, self.server.memory_mib())
            if time.monotonic() - begun > self.attack.gone_after_s + 10 * LATE_S:
                break
        return time.monotonic() - begun

    def has_none_left(self, begun: float) -> bool:
        """Checks an attack by clients that read nothing.

        Such a client does not notice the end of its connection, so the server's descriptors are counted
        instead.
        """
        is_early = time.monotonic() - begun < 2
        return self.is_reader and not is_early and self.server.descriptors() <= self.idle_descriptors + 1

    def is_gone(self, client: list) -> bool:
        peer, came = client
        send(peer, self.attack.drip)
        if self.is_reader:
            return False
        try:
            bytes_came = peer.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            bytes_came = b""
        if bytes_came:
            client[1] = came or bytes_came[:32]
            return False
        # An answer within a handshake has no status.
        self.heard["" if self.attack.handshake else came[9:12].decode()] += 1
        peer.close()
        return True


def port_for(server: Instance, attack: Attack) -> int:
    return server.ports[1 if attack.handshake else 0]


def send(peer: socket.socket, data: bytes):
    try:
        peer.send(data)
    except OSError:
        pass


class Normal:
    """A normal client: a thousand requests per second on one connection, beside the hostile clients."""

    def __init__(self, server: Instance, attack: Attack):
        self.port, self.uses_tls = port_for(server, attack), attack.handshake is not None

    def start(self, seconds: float = 0):
        read, write = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(read)
            run_normal(self.port, self.uses_tls, seconds, write)
        os.close(write)
        self.result = os.fdopen(read)

    def p99_us(self, seconds: float = 0) -> float:
        if seconds:
            self.start(seconds)
        else:
            os.kill(self.child, signal.SIGTERM)
        result = float(self.result.read())
        os.waitpid(self.child, 0)
        return result


def run_normal(port: int, uses_tls: bool, seconds: float, write: int):
    """Never returns, because the process ends in it."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass
    peer = socket.create_connection(("127.0.0.1", port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if uses_tls:
        peer = trusting().wrap_socket(peer)
    took, due = [], time.monotonic()
    end = due + seconds if seconds else float("inf")
    while not stopped.is_set() and due < end:
        asked = time.monotonic()
        peer.sendall(ASK)
        reply = peer.recv(4096)
        if not reply.startswith(b"HTTP/1.1 200 "):
            os.write(write, b"inf")
            os._exit(1)
        took.append(time.monotonic() - asked)
        due = max(due + 0.001, time.monotonic())
        time.sleep(max(0, due - time.monotonic()))
    took.sort()
    os.write(write, str(took[len(took) * 99 // 100] * 1e6).encode())
    os._exit(0)
