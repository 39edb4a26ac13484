#!/usr/bin/env python3
"""Instructions of the whole process per request, by callgrind: `bench/instructions.py [--depth 16]`. Needs valgrind.

One connection sends packets of so many requests for a fixed reply; the difference between many packets and few leaves the
start out. Scripts are not counted: valgrind does not survive how they read the clock of their thread.
"""

import argparse
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from servers import PROGRAM

CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
[[route]]
path = "/fixed"
reply = { body = "hello, world\\n" }
"""
FEW, MANY = 100, 600


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=16)
    depth = parser.parse_args().depth
    few, many = (count(depth, packets) for packets in (FEW, MANY))
    print(f"fixed reply, {depth} to a packet: {(many - few) / (MANY - FEW) / depth:.0f} instructions a request")


def count(depth: int, packets: int) -> int:
    with tempfile.TemporaryDirectory(prefix="tollgate-instructions-") as folder:
        Path(folder, "tollgate.toml").write_text(CONFIGURATION)
        callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        command = [*callgrind, str(PROGRAM), "serve", "--no-load", folder]
        told = Path(folder, "told")
        with told.open("w") as errors:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            port = int(server.stdout.readline().split()[1].rsplit(":", 1)[1])
            ask(port, depth, packets)
            server.send_signal(signal.SIGTERM)
            server.wait(120)
        return int(re.search(r"Collected : (\d+)", told.read_text())[1])


def ask(port: int, depth: int, packets: int):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        for _ in range(packets):
            peer.sendall(b"GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n" * depth)
            came = b""
            while came.count(b"HTTP/1.1 200") < depth or not came.endswith(b"world\n"):
                came += peer.recv(65536)


if __name__ == "__main__":
    main()
