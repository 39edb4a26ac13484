"""Memory while clients request much and read nothing: `bench/study.py memory [--case NAME] [--alone]`.

Each of 200 clients sends 2,000 requests for a reply of a script, and reads nothing for six seconds. Then all
clients leave. Every case runs once alone and once next to two busy loops, because requests queue when the
handler is interrupted. The table has the resident memory of the server, and the longest wait for a fixed
reply during this time.

Exits 1 unless two bounds hold. The peak is at most idle + `in_flight_bytes_max` + 64 MiB for each worker. The
memory 10 s after the clients left is at most 32 MiB above idle. `docs/reference/limits.md` derives these
bounds.
"""

import argparse
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from lib.facts import bytes_of, default_of
from lib.servers import CORES, Instance
from lib.usage import memory_mib_of

LOAD_S = 6
AFTER_S = 10
PER_WORKER_MIB = 64
KEPT_MIB = 32
BUSY_LOOPS = 2
CPUS = ",".join(map(str, CORES))

SCRIPTS = {
    "100 kB": 'return function() return { body = string.rep("x", 100000) } end',
    "1 MB": 'return function() return { body = string.rep("x", 1000000) } end',
    "8 MB": 'return function() return { body = string.rep("x", 8000000) } end',
    # The call is longer than a slice, so that all later requests queue, even on an idle machine.
    "1 MB, slow": """
return function()
    local last = tollgate.time.monotonic_us() + 5000
    while tollgate.time.monotonic_us() < last do end
    return { body = string.rep("x", 1000000) }
end
""",
    "streamed by 16 kB": """
local block = string.rep("x", 16384)
return function()
    return { write = function(out) for _ = 1, 1000 do out:write(block) end end }
end
""",
    "streamed by 1 MB": """
return function()
    return { write = function(out) for _ = 1, 1000 do out:write(string.rep("x", 1000000)) end end }
end
""",
    "streamed by 8 MB": """
return function()
    return { write = function(out) for _ = 1, 1000 do out:write(string.rep("x", 8000000)) end end }
end
""",
}


class Case(NamedTuple):
    """A script, and the bounds of its server. `None`: the server has the default."""

    script: str
    workers: int = 1
    in_flight_mib: int | None = 64

    @property
    def peak_mib_max(self) -> int:
        """Returns the maximum rise of memory above idle."""
        return (self.in_flight_mib or default_in_flight_mib()) + PER_WORKER_MIB * self.workers


CASES = {
    **{name: Case(name) for name in SCRIPTS},
    "1 MB, default bounds, two workers": Case("1 MB", workers=2, in_flight_mib=None),
}


def default_in_flight_mib() -> int:
    return bytes_of(default_of("server", "in_flight_bytes_max")) >> 20


class Figures(NamedTuple):
    """Resident memory in MiB, and the longest time of the fixed reply."""

    idle_mib: float
    peak_mib: float
    after_mib: float
    longest_s: float


def main():
    arguments = parse()
    files_max = arguments.clients + 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    names = [arguments.case] if arguments.case else list(CASES)
    print(
        "| reply | busy loops | idle, MiB | peak above idle | allowed | 10 s after, above idle | "
        "allowed | longest wait, s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    are_met = [
        told(name, busy, measure(CASES[name], busy, arguments))
        for name in names
        for busy in ([0] if arguments.alone else [0, BUSY_LOOPS])
    ]
    sys.exit(0 if all(are_met) else 1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--requests", type=int, default=2000, help="of each client")
    parser.add_argument("--alone", action="store_true", help="run without busy loops on the same cores")
    return parser.parse_args()


def told(name: str, busy: int, figures: Figures) -> bool:
    """Prints a line. Returns whether the goal is reached."""
    above, kept = figures.peak_mib - figures.idle_mib, figures.after_mib - figures.idle_mib
    allowed = CASES[name].peak_mib_max
    is_met = above <= allowed and kept <= KEPT_MIB
    print(
        f"| {name} | {busy} | {figures.idle_mib:.0f} | {above:.0f} | {allowed} | {kept:.0f} | {KEPT_MIB} | "
        f"{figures.longest_s:.2f} |{'' if is_met else ' missed'}",
        flush=True,
    )
    return is_met


def configuration(case: Case) -> str:
    bound = f'in_flight_bytes_max = "{case.in_flight_mib}MiB"\n' if case.in_flight_mib else ""
    return f"""
[server]
listen = ["127.0.0.1:0"]
workers = {case.workers}
{bound}
[log]
reserve = "1MiB"
[[route]]
path = "/reply"
script = "reply.luau"
[[route]]
path = "/fixed"
reply = {{ body = "ok" }}
"""


def measure(case: Case, busy: int, arguments) -> Figures:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        with tempfile.TemporaryDirectory(prefix="tollgate-memory-") as folder:
            server = Instance(Path(folder), configuration(case), {"reply.luau": SCRIPTS[case.script]}, CPUS)
            try:
                return wave(server, arguments)
            finally:
                server.stop()
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def wave(server: Instance, arguments) -> Figures:
    pid = server.process.pid
    wait_for_fixed(server.port)
    idle_mib = memory_mib_of(pid)
    clients = [Client(server.port, arguments.requests) for _ in range(arguments.clients)]
    longest_s, until = 0.0, time.monotonic() + LOAD_S
    while time.monotonic() < until:
        longest_s = max(longest_s, wait_for_fixed(server.port))
        time.sleep(0.1)
    for client in clients:
        client.leave()
    time.sleep(AFTER_S)
    return Figures(idle_mib, peak_mib_of(pid), memory_mib_of(pid), longest_s)


class Client:
    """Sends requests until the server accepts no more, and reads nothing."""

    def __init__(self, port: int, requests: int):
        self.socket = socket.socket()
        # With this receive buffer, the client accepts only a small part of a reply.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.thread = threading.Thread(target=self.ask, args=(port, requests), daemon=True)
        self.thread.start()

    def ask(self, port: int, requests: int):
        try:
            self.socket.connect(("127.0.0.1", port))
            self.socket.sendall(b"GET /reply HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * requests)
        except OSError:
            # The server resets the connections of clients that read nothing.
            pass

    def leave(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.thread.join()
        self.socket.close()


def wait_for_fixed(port: int) -> float:
    """Returns the time of a fixed reply on a connection of its own, or a refusal in its place."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(b"GET /fixed HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        while peer.recv(4096):
            pass
    return time.monotonic() - begun


def peak_mib_of(pid: int) -> float:
    """Returns the largest resident memory that a process had so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
