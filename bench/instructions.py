#!/usr/bin/env python3
"""Instructions of the whole process per request, by callgrind: `bench/instructions.py [--depth 16] [--proxied BYTES]`. Needs valgrind.

One connection sends packets of so many requests for a fixed reply, or one by one such that a backend answers by so many bytes.
Counting begins when a first connection was served: what a start takes depends on the clock. Scripts are not counted: valgrind does
not survive how they read the clock of their thread.
"""

import argparse
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from servers import PROGRAM

CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
"""
FIXED = """
[[route]]
path = "/*"
reply = { body = "hello, world\\n" }
"""
PROXIED = """
[backend.app]
urls = ["http://127.0.0.1:@PORT@"]
[[route]]
path = "/*"
proxy = "app"
"""
FIRST, PACKETS = 100, 500


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=16, help="requests in a packet")
    parser.add_argument("--proxied", type=int, metavar="BYTES", help="a backend answers, by so many bytes")
    arguments = parser.parse_args()
    if arguments.proxied is None:
        routes, depth, content, what = FIXED, arguments.depth, b"hello, world\n", "fixed reply"
    else:
        content = bytes(arguments.proxied)
        routes, depth, what = PROXIED.replace("@PORT@", str(answer(content))), 1, f"proxied, {len(content)} bytes"
    instructions = count(routes, depth, content) / PACKETS / depth
    print(f"{what}, {depth} to a packet: {instructions:.0f} instructions a request")


def answer(content: bytes) -> int:
    """Starts a backend and returns its port."""
    head = f"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Type: text/plain\r\nContent-Length: {len(content)}\r\n\r\n"
    reply = head.encode() + content
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket):
        came = b""
        while piece := peer.recv(65536):
            came += piece
            while b"\r\n\r\n" in came:
                came = came.split(b"\r\n\r\n", 1)[1]
                peer.sendall(reply)

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def count(routes: str, depth: int, content: bytes) -> int:
    with tempfile.TemporaryDirectory(prefix="tollgate-instructions-") as folder:
        Path(folder, "tollgate.toml").write_text(CONFIGURATION + routes)
        callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        command = [*callgrind, str(PROGRAM), "serve", "--no-load", folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = int(server.stdout.readline().split()[1].rsplit(":", 1)[1])
        ask(port, depth, content, FIRST)
        control("--zero", server.pid)
        ask(port, depth, content, PACKETS)
        control("--dump", server.pid)
        server.send_signal(signal.SIGTERM)
        server.wait(120)
        return int(re.search(r"^totals: (\d+)", Path(folder, "out.1").read_text(), re.MULTILINE)[1])


def control(order: str, process: int):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["callgrind_control", order, str(process)], check=True, **quiet)


def ask(port: int, depth: int, content: bytes, packets: int):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        replies = peer.makefile("rb")
        for _ in range(packets):
            peer.sendall(b"GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n" * depth)
            for _ in range(depth):
                assert replies.readline().startswith(b"HTTP/1.1 200")
                while replies.readline().strip():
                    pass
                assert replies.read(len(content)) == content


if __name__ == "__main__":
    main()
