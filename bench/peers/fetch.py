#!/usr/bin/env python3
"""Clients that fetch random files: `bench/peers/fetch.py PORT FOLDER CLIENTS SECONDS [--cold]`.

Prints bytes per second. `FOLDER` holds the files that the server has below `/cold/`. With `--cold` each file
is dropped from the page cache before a client asks for it.
"""

import argparse
import os
import random
import socket
import threading
import time
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("clients", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()
    files = sorted(arguments.folder.iterdir())
    deadline = time.monotonic() + arguments.seconds
    fetched = [0] * arguments.clients

    def client(number: int):
        choice = random.Random(number)
        with socket.create_connection(("127.0.0.1", arguments.port)) as stream:
            while time.monotonic() < deadline:
                file = choice.choice(files)
                if arguments.cold:
                    drop(file)
                fetched[number] += fetch(stream, file.name)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(arguments.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(fetched):
        raise RuntimeError(f"a client got no reply: {fetched}")
    print(sum(fetched) / arguments.seconds)


def drop(file: Path):
    """Drops the pages of the file that no process uses, by posix_fadvise(2)."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def fetch(stream: socket.socket, name: str) -> int:
    """Requests a file, drops its content, and returns its length."""
    stream.sendall(f"GET /cold/{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    came = b""
    while b"\r\n\r\n" not in came:
        part = stream.recv(65536)
        if not part:
            raise ConnectionError("closed before the head was there")
        came += part
    head, _, content = came.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    length = int(fields[b"content-length"])
    left, part = length - len(content), bytearray(1 << 20)
    while left:
        count = stream.recv_into(part, min(left, len(part)))
        if not count:
            raise ConnectionError(f"closed {left} bytes too early")
        left -= count
    return length


if __name__ == "__main__":
    main()
