"""The processor time of a refusal and of an answer: `bench/study.py refusals [--seconds N]`.

32 connections send requests as fast as they can. They use routes without limits, and the same routes when
nearly all requests exceed `rate_limit` or `concurrency_max`. The table has the server's user and system time
per request. Needs wrk.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from lib.servers import LOAD_CORE, Instance
from lib.usage import cpu_s_of

CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
[stream.hits]
columns = [{ name = "n", type = "int" }]
"""
ROUTE = """
[[route]]
path = "{path}"
{handler}
{limit}
"""
HANDLERS = {
    "fixed reply": 'reply = { body = "hello, world\\n" }',
    "script, recorded": 'script = "hit.luau"\nstream = "hits"',
}
LIMITS = {
    "taken": "",
    "counted by client and taken": 'rate_limit = { rate = "1000000/s" }',
    "429: rate of the client": 'rate_limit = { rate = "1/h" }',
    "429: rate of a header": 'rate_limit = { rate = "1/h", by = "request.header.x-key" }',
    "429: rate of the route": 'rate_limit = { rate = "1/h", by = "route" }',
}
SCRIPTS = {"hit.luau": "return function() return { body = 'hello, world\\n', record = { n = 1 } } end"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3)
    seconds = parser.parse_args().seconds
    cases = [(handler, limit) for handler in HANDLERS for limit in LIMITS]
    routes = [
        ROUTE.format(path=f"/{place}", handler=HANDLERS[handler], limit=LIMITS[limit])
        for place, (handler, limit) in enumerate(cases)
    ]
    with tempfile.TemporaryDirectory(prefix="tollgate-refusals-") as folder:
        server = Instance(Path(folder), CONFIGURATION + "".join(routes), SCRIPTS)
        try:
            print("| route | request | us of processor time |\n| --- | --- | --- |")
            for place, (handler, limit) in enumerate(cases):
                print(f"| {handler} | {limit} | {cost_us(server, place, seconds):.2f} |", flush=True)
        finally:
            server.stop()


def cost_us(server: Instance, place: int, seconds: int) -> float:
    before = cpu_s_of([server.process.pid])
    command = ["taskset", "-c", LOAD_CORE, "wrk", "-t1", "-c32", f"-d{seconds}s", "-H", "X-Key: a"]
    output = subprocess.run(
        [*command, f"http://127.0.0.1:{server.port}/{place}"], capture_output=True, text=True, check=True
    )
    requests = int(re.search(r"(\d+) requests in", output.stdout)[1])
    return (cpu_s_of([server.process.pid]) - before) / requests * 1e6
