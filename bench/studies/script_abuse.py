"""Scripts that abuse their VM, and the latency of another route in it: `bench/study.py script_abuse`.

A scripted route gets a thousand requests per second. Its latency is measured alone, and while one client
abuses another route of the same worker up to ten times per second. An abuse that uses all of its processor
budget, 50 ms, then has half of the worker. The table has the replies to the abuse, and the latency of the 200
replies of the scripted route (the neighbour). Latency counts from the moment when a request was due. The
clients of the neighbour have eight connections. With two workers, which share two cores with the load, half
of the connections are on the other worker.
"""

import argparse
import http.client
import os
import tempfile
import threading
import time
from pathlib import Path

from lib.neighbour import Neighbour
from lib.servers import LOAD_CORE, SERVER_CORE, Instance

CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = WORKERS
[script]
vm_bytes_max = "64MiB"
[[route]]
path = "/fine"
script = "fine.luau"
"""
ROUTE = """
[[route]]
path = "/NAME"
script = "NAME.luau"
"""
FINE = "return function(req) return { json = { score = (tonumber(req.query.x) or 0) * 2 + 1 } } end"
#: The text of a handler, or of a whole file.
ABUSES = {
    "loop": ("endless loop", "while true do end"),
    "metamethod": (
        "endless loop in a metamethod",
        "return setmetatable({}, { __index = function() while true do end end }).x",
    ),
    "pattern": ("a pattern that explodes", "return string.find(('a'):rep(10000), ('a*'):rep(30) .. 'b')"),
    "bomb": ("memory bomb of tables", "local t = {} while true do t[#t + 1] = {} end"),
    "rep": ("one huge string", "return string.rep('x', 2^30)"),
    "recursion": ("deep recursion", "local function f(n) return 1 + f(n + 1) end return f(1)"),
    "sleepers": (
        "coroutines, never resumed",
        "local t = {} while true do table.insert(t, coroutine.create(function() end)) end",
    ),
    "message": ("an error of 6 MB", "error(('x'):rep(6000000))"),
    "order": (
        "a sort without an order",
        "local t = {} for i = 1, 10000 do t[i] = i % 7 end table.sort(t, function() return true end)",
    ),
    "leak": (
        "200 KB kept of each call, so that VMs are replaced",
        (
            "local kept = {} return function(req) local t = {} for i = 1, 2000 do t[i] = { i } end "
            "table.insert(kept, t) return 204 end"
        ),
    ),
}
ABUSES_S = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=ABUSES)
    parser.add_argument("--seconds", type=float, default=6)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    print("| abuse | workers | abuses/s | its replies | p50, ms | p99, ms | p99.9, ms | refused |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for workers in (1, 2):
        with tempfile.TemporaryDirectory(prefix="tollgate-script-abuse-") as folder:
            cores = SERVER_CORE if workers == 1 else f"{SERVER_CORE},{LOAD_CORE}"
            server = Instance(Path(folder), configuration(workers), scripts(), cores)
            try:
                for name in [None, *ABUSES]:
                    if name is None or arguments.only in (None, name):
                        measure(server, workers, name, arguments.seconds)
            finally:
                server.stop()


def configuration(workers: int) -> str:
    return CONFIGURATION.replace("WORKERS", str(workers)) + "".join(
        ROUTE.replace("NAME", name) for name in ABUSES
    )


def scripts() -> dict[str, str]:
    def whole(body: str) -> str:
        return body if "return function(req)" in body else f"return function(req)\n{body}\nend"

    return {"fine.luau": FINE} | {f"{name}.luau": whole(body) for name, (_, body) in ABUSES.items()}


def measure(server: Instance, workers: int, name: str | None, seconds: float):
    neighbour = Neighbour(server.port, seconds, "/fine?x=3")
    abuser = Abuser(server.port, name) if name else None
    took, refused = neighbour.result()
    replies = abuser.stop() if abuser else {}
    title = ABUSES[name][0] if name else "none"
    told = ", ".join(f"{count} x {status}" for status, count in sorted(replies.items())) or "-"
    rate = sum(replies.values()) / seconds
    p50, p99, p999 = (took[int(len(took) * share)] for share in (0.5, 0.99, 0.999))
    print(
        f"| {title} | {workers} | {rate:.1f} | {told} | {p50:.2f} | {p99:.2f} | {p999:.2f} | {refused} |",
        flush=True,
    )


class Abuser:
    """Sends requests for the abuse `ABUSES_S` times per second, or as often as they are answered, until it is
    stopped.
    """

    def __init__(self, port: int, name: str):
        self.peer = http.client.HTTPConnection("127.0.0.1", port)
        self.path = f"/{name}"
        self.replies: dict[int, int] = {}
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        due = time.monotonic()
        while not self.stopped.wait(max(0, due - time.monotonic())):
            due = max(due + 1 / ABUSES_S, time.monotonic())
            self.peer.request("GET", self.path)
            reply = self.peer.getresponse()
            reply.read()
            self.replies[reply.status] = self.replies.get(reply.status, 0) + 1

    def stop(self) -> dict[int, int]:
        self.stopped.set()
        self.thread.join()
        self.peer.close()
        return self.replies
