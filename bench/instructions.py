#!/usr/bin/env python3
"""Instructions of the whole process per request, by callgrind: `bench/instructions.py [KIND] [OPTIONS]`.

One connection sends packets of `--depth` requests. They request a fixed reply, or another kind of reply:

    --script          a script answers; with --recorded each request leaves a record at `written`
    --collect         an event of 200 bytes by POST to a route with `collect`; it is recorded at `written`
    --proxied BYTES   a backend answers with this many bytes; one request to a packet
    --file BYTES      a file of this many bytes; one request to a packet

With `--each` each request has a connection of its own. With `--access-log FORMAT` each request has a line in
a file. With `--workers` only the threads of workers count. Counting begins after the first requests, because
the instructions of a start depend on the clock. Two runs with records differ, because the log forms
different batches.

Needs valgrind. `--file` needs a version that supports openat2. Valgrind 3.19 of Debian 12 does not.
"""

import argparse
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from cases.events import EVENT
from lib.callgrind import is_of_worker, total_of_dump
from lib.servers import PEERS, PROGRAM

CONFIGURATION = """
[server]
listen = [{ address = "127.0.0.1:0", deferred = @DEFERRED@ }]
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
FILES = """
[[route]]
path = "/*"
files = "site"
"""
SCRIPT = """
[[route]]
path = "/*"
script = "recorded.luau"
"""
STREAM = """
[stream.scores]
ack = "written"
columns = [
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "client", type = "inet", from = "request.remote_addr" },
  { name = "path", type = "text", from = "request.path" },
  { name = "status", type = "int", from = "reply.status" },
  { name = "took_us", type = "int", from = "reply.time_us" },
  { name = "score", type = "float", from = "record.score" },
]
"""
IN_STREAM = 'stream = "scores"\n'
COLLECT = """
[stream.events]
ack = "written"
columns = [
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "client", type = "inet", from = "request.remote_addr" },
  { name = "kind", type = "text" },
  { name = "user", type = "text" },
  { name = "amount", type = "int" },
  { name = "note", type = "text" },
]
[[route]]
path = "/event"
collect = true
stream = "events"
"""
#: Segments so short that many are sealed, and shipped if there is a ship target, during the requests.
SHORT_SEGMENTS = """
[log]
segment_bytes_max = "64KiB"
"""
#: A ship target, for `instructions_of_workers`.
SHIP = """
[ship.main]
dir = "handover"
"""
#: An access log, which leads the sections of the routes.
ACCESS_LOG = """
[access_log]
file = "access.log"
format = "@FORMAT@"
"""
FIRST, PACKETS = 100, 500


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=16, help="requests in a packet")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--script", action="store_true", help="a script answers")
    kinds.add_argument("--collect", action="store_true", help="an event of 200 bytes is collected")
    kinds.add_argument("--proxied", type=int, metavar="BYTES", help="a backend replies with this many bytes")
    kinds.add_argument("--file", type=int, metavar="BYTES", help="a file of this many bytes is sent")
    parser.add_argument("--recorded", action="store_true", help="each request leaves a record")
    parser.add_argument("--each", action="store_true", help="a connection for each request")
    parser.add_argument("--access-log", metavar="FORMAT", help="each request has a line in a file")
    parser.add_argument("--workers", action="store_true", help="count only the threads of workers")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="leave callgrind's counts by function there"
    )
    arguments = parser.parse_args()
    kind = kind_of(arguments)
    counted = count_of_workers(kind) if arguments.workers else count(kind, arguments.profile)
    instructions = counted / PACKETS / kind.depth
    packets = "a connection each" if kind.is_each else f"{kind.depth} to a packet"
    print(f"{kind.name}, {packets}: {instructions:.0f} instructions a request")


class Kind(NamedTuple):
    name: str
    routes: str
    target: str
    depth: int
    #: The content of a reply.
    content: bytes
    #: The body of a request, which is then a POST.
    body: bytes | None = None
    #: Whether each request has a connection of its own.
    is_each: bool = False


def kind_of(arguments: argparse.Namespace) -> Kind:
    kind = content_of(arguments)
    if form := arguments.access_log:
        routes = ACCESS_LOG.replace("@FORMAT@", form) + kind.routes
        kind = kind._replace(name=f"{kind.name}, access log {form}", routes=routes)
    return kind._replace(depth=1, is_each=True) if arguments.each else kind


def content_of(arguments: argparse.Namespace) -> Kind:
    if arguments.file is not None:
        content = bytes(arguments.file)
        return Kind(f"file, {len(content)} bytes", FILES, "/file", 1, content)
    if arguments.proxied is not None:
        content = bytes(arguments.proxied)
        routes = PROXIED.replace("@PORT@", str(answer(content)))
        return Kind(f"proxied, {len(content)} bytes", routes, "/fixed", 1, content)
    if arguments.collect:
        return Kind("collect", COLLECT, "/event", arguments.depth, b'{"recorded":1}\n', EVENT)
    kind = Kind("fixed reply", FIXED, "/fixed", arguments.depth, b"hello, world\n")
    if arguments.script:
        kind = Kind("script", SCRIPT, "/recorded?x=20", arguments.depth, b'{"score":41}')
    if arguments.recorded:
        kind = kind._replace(name=f"{kind.name}, recorded", routes=STREAM + kind.routes + IN_STREAM)
    return kind


def answer(content: bytes) -> int:
    """Starts a backend and returns its port."""
    head = (
        f"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Type: text/plain\r\nContent-Length: {len(content)}\r\n\r\n"
    )
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


def instructions_of_workers(more: str) -> float:
    """Returns the instructions of worker threads for each scripted and recorded request.

    `more`: further sections of the configuration.
    """
    routes = SHORT_SEGMENTS + STREAM + SCRIPT + IN_STREAM + more
    kind = Kind("script, recorded", routes, "/recorded?x=20", 16, b'{"score":41}')
    with tempfile.TemporaryDirectory(prefix="tollgate-instructions-") as folder:
        Path(folder, "handover").mkdir()
        dumps = dumps_of(kind, folder, "--separate-threads=yes")
        shipped = any(Path(folder, "handover").rglob("*.seg"))
    if SHIP in more and not shipped:
        raise RuntimeError("no segment was shipped")
    return total_of_workers(dumps) / PACKETS / kind.depth


def total_of_workers(dumps: list[str]) -> int:
    return sum(map(total_of_dump, filter(is_of_worker, dumps)))


def count_of_workers(kind: Kind) -> int:
    with tempfile.TemporaryDirectory(prefix="tollgate-instructions-") as folder:
        return total_of_workers(dumps_of(kind, folder, "--separate-threads=yes"))


def count(kind: Kind, profile: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="tollgate-instructions-") as folder:
        (counts,) = dumps_of(kind, folder)
    if profile:
        profile.write_text(counts)
    return total_of_dump(counts)


def dumps_of(kind: Kind, folder: str, *options: str) -> list[str]:
    """Serves requests in a folder under callgrind. Returns the counts after the first requests: of the
    process, or of each thread.
    """
    configuration = CONFIGURATION.replace("@DEFERRED@", "true" if kind.is_each else "false")
    Path(folder, "tollgate.toml").write_text(configuration + kind.routes)
    shutil.copy(PEERS / "tollgate-recorded.luau", Path(folder, "recorded.luau"))
    Path(folder, "site").mkdir()
    Path(folder, "site", "file").write_bytes(kind.content)
    callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *options]
    command = [*callgrind, str(PROGRAM), "serve", "--no-load", folder]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = int(server.stdout.readline().split()[1].rsplit(":", 1)[1])
    ask(port, kind, FIRST)
    control("--zero", server.pid)
    ask(port, kind, PACKETS)
    control("--dump", server.pid)
    server.send_signal(signal.SIGTERM)
    server.wait(120)
    return [file.read_text() for file in sorted(Path(folder).glob("out.1*"))]


def control(order: str, process: int):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["callgrind_control", order, str(process)], check=True, **quiet)


def ask(port: int, kind: Kind, packets: int):
    connections, packets_each = (packets, 1) if kind.is_each else (1, packets)
    for _ in range(connections):
        with socket.create_connection(("127.0.0.1", port)) as peer:
            exchange(peer, kind, packets_each)


def request_of(kind: Kind) -> bytes:
    ends = "Connection: close\r\n" if kind.is_each else ""
    method, length = ("GET", "") if kind.body is None else ("POST", f"Content-Length: {len(kind.body)}\r\n")
    head = f"{method} {kind.target} HTTP/1.1\r\nHost: a\r\n{length}{ends}\r\n"
    return head.encode() + (kind.body or b"")


def exchange(peer: socket.socket, kind: Kind, packets: int):
    request = request_of(kind)
    replies = peer.makefile("rb")
    for _ in range(packets):
        peer.sendall(request * kind.depth)
        for _ in range(kind.depth):
            assert replies.readline().startswith(b"HTTP/1.1 200")
            while replies.readline().strip():
                pass
            assert replies.read(len(kind.content)) == kind.content


if __name__ == "__main__":
    main()
