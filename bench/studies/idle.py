"""Memory of an idle connection, by server: `bench/study.py idle [--connections N]`.

The figure is the resident memory of the server process, divided by the number of connections. The memory is
read three times: after the connections are opened, after one request on each, and after 16 requests in one
packet on each.
"""

import argparse
import resource
import socket
import tempfile
import time
from pathlib import Path

from lib.servers import Nginx, Tollgate
from lib.usage import process_tree

REQUEST = b"GET /fixed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
REPLY_START = b"HTTP/1.1 200"
STEADY_S = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=9000)
    count = parser.parse_args().connections
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 1000, count + 1000))
    print("| KiB a connection | opened | after one request | after 16 at once |\n| --- | --- | --- | --- |")
    for server_class in (Tollgate, Nginx):
        with tempfile.TemporaryDirectory(prefix="tollgate-idle-") as folder:
            Path(folder).chmod(0o755)
            server = server_class(Path(folder) / "server")
            server.start()
            try:
                figures = measure(server, count)
            finally:
                server.stop()
        print(f"| {server.name} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)


def measure(server, count: int) -> list[float]:
    before = steady_kib(server)
    peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    figures = [(steady_kib(server) - before) / count]
    for depth in (1, 16):
        for peer in peers:
            peer.sendall(REQUEST * depth)
        for peer in peers:
            read_replies(peer, depth)
        figures.append((steady_kib(server) - before) / count)
    for peer in peers:
        peer.close()
    return figures


def read_replies(peer: socket.socket, depth: int):
    replies = b""
    while replies.count(REPLY_START) < depth:
        came = peer.recv(65536)
        if not came:
            raise RuntimeError("the server closed a connection")
        replies += came


def steady_kib(server) -> int:
    """Returns the resident memory in KiB, once it stays the same for a while."""
    found, since = resident_kib(server), time.monotonic()
    while time.monotonic() - since < STEADY_S:
        time.sleep(STEADY_S / 10)
        if (now := resident_kib(server)) != found:
            found, since = now, time.monotonic()
    return found


def resident_kib(server) -> int:
    total = 0
    for pid in process_tree(server.process.pid):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return total
