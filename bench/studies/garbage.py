"""A script that makes garbage, at saturation and at 70 % load: `bench/study.py garbage [--seconds S]`.

Each request makes 200 small tables, a string for each and some closures. The VM keeps nothing else, or 50 MiB
of small tables that the collector has to visit. A third script does the same work without new tables. At 70
%, latency counts from the moment when a request was due. Needs wrk and oha (`make bench` installs them).
"""

import argparse
import sys
import tempfile
from pathlib import Path

from lib.load import Oha, Wrk
from lib.servers import Instance

CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
workers = 1
[script]
cpu_budget = "1s"
memory_bytes_max = "128MiB"
[[route]]
path = "/"
script = "garbage.luau"
"""
KEEP = "local kept = {} for i = 1, 1000 do kept[i] = {} for j = 1, 400 do kept[i][j] = { j, i } end end\n"
GARBAGE = Path(__file__).with_suffix(".luau").read_text()
#: A script with a loop that makes no new tables and needs about the same time.
CLEAN = """
return function(req)
    local sum = 0
    for i = 1, 6000 do sum += i % 7 end
    return tostring(sum)
end
"""
CASES = {
    "no garbage": CLEAN,
    "garbage": GARBAGE,
    "garbage, 50 MiB kept": KEEP + GARBAGE.replace("local rows = {}", "local rows, _ = {}, kept"),
}
LOADED = 0.7


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8)
    seconds = parser.parse_args().seconds
    print("| script | load | requests/s | p50, us | p99, us | p99.9, us | memory, MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, script in CASES.items():
        with tempfile.TemporaryDirectory(prefix="tollgate-garbage-") as folder:
            server = Instance(Path(folder), CONFIGURATION, {"garbage.luau": script})
            try:
                peak = Wrk("/", connections=16).run(server.port, seconds)
                told(name, "all it can", peak, server)
                rate = round(peak.rate * LOADED)
                told(
                    name, "70 %", Oha("/", connections=16, rate_per_s=rate).run(server.port, seconds), server
                )
            finally:
                server.stop()


def told(name, load, figures, server):
    if figures.errors:
        sys.exit(f"{name}: {figures.errors} errors")
    print(
        f"| {name} | {load} | {figures.rate:.0f} | {figures.p50_us:.0f} | {figures.p99_us:.0f} | {figures.p999_us:.0f} "
        f"| {server.memory_mib():.0f} |",
        flush=True,
    )
