"""A client with good manners, and what it sees while others have none: the latency of a route from the moment when each request was due."""

import os
import random
import socket
import sys
import threading
import time

PROBES_S = 1000
CONNECTIONS = 8


class Neighbour:
    """A client that asks on its connections, in a process of its own that is never made to wait for others."""

    def __init__(self, port: int, seconds: float, path: str):
        read, write = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(read)
            ask_evenly(port, seconds, path, write)
        os.close(write)
        self.told = os.fdopen(read)

    def result(self) -> tuple[list[float], int]:
        """Milliseconds of each reply of 200, in order, and how many there were of others."""
        told = self.told.read().split()
        os.waitpid(self.child, 0)
        if len(told) < 2:
            sys.exit("the neighbour was not answered with 200")
        return sorted(float(took) for took in told[1:]), int(told[0])


def ask_evenly(port: int, seconds: float, path: str, write: int):
    """Never returns."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass
    try:
        begun, took = time.monotonic(), [[] for _ in range(CONNECTIONS)]
        threads = [threading.Thread(target=ask_on_one, args=(port, seconds, path, begun, *one)) for one in enumerate(took)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        all_took = [one for of_connection in took for one in of_connection]
        with os.fdopen(write, "w") as out:
            out.write(f"{all_took.count(None)} ")
            out.write(" ".join(f"{one:.4f}" for one in all_took if one is not None))
    finally:
        os._exit(0)


def ask_on_one(port: int, seconds: float, path: str, begun: float, place: int, took: list[float | None]):
    """Every eighth of all requests, each when it is due, whatever the other connections wait for. None: not 200.

    One is due at any moment of its millisecond: at even distances all of them would meet the ticks of the system, or none.
    """
    peer = socket.create_connection(("127.0.0.1", port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    for turn in range(place, int(seconds * PROBES_S), CONNECTIONS):
        due = begun + (turn + random.random()) / PROBES_S
        time.sleep(max(0, due - time.monotonic()))
        peer.sendall(ask)
        is_answered = read_reply(peer)[9:12] == b"200"
        took.append((time.monotonic() - due) * 1000 if is_answered else None)


def read_reply(peer: socket.socket) -> bytes:
    came = b""
    while True:
        head, blank, content = came.partition(b"\r\n\r\n")
        if blank:
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            if len(content) >= int(fields.get(b"content-length", 0)):
                return came
        part = peer.recv(65536)
        if not part:
            return b"HTTP/1.1 cut"
        came += part
