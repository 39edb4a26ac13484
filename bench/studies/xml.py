"""The cost of XML: routes that read it, and rows from it: `bench/study.py xml [--only PART] [--rounds N]`.

The parts:

    routes  a SOAP message of 4 KiB to a backend: a route with `proxy`, and a route whose three rules read the
            message
    rows    an event of 1 KiB into a synced record: `collect` of XML, and of JSON with the same values

The figure is the processor time of the server for each request. The ways alternate in each round. Exits 1 if
a part misses its goal.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from lib.load import Figures, Wrk
from lib.packages import install_packages, tell
from lib.paired import share_of
from lib.report import machine
from lib.servers import Tollgate
from studies.proxy import WARMUP_S, Backend, TollgateProxy

#: What rules may add to a proxied request, in microseconds.
ROUTES_GOAL_US = 4
#: The rate of XML, as a share of the rate of JSON.
ROWS_GOAL = 0.7
MESSAGE_BYTES = 4 << 10
EVENT_BYTES = 1 << 10


def message() -> bytes:
    """Returns a SOAP message. The last rule decides about it."""
    begin = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Header/><s:Body>'
        '<o:createOrder xmlns:o="urn:orders" region="eu" id="7">'
    )
    end = "</o:createOrder></s:Body></s:Envelope>\n"
    line = '<o:line article="4711" count="3"><o:name>Tea &amp; co, first quality</o:name></o:line>'
    lines = line * ((MESSAGE_BYTES - len(begin + end)) // len(line))
    return (begin + lines + " " * (MESSAGE_BYTES - len(begin + lines + end)) + end).encode()


def events() -> dict[str, bytes]:
    """Returns the event by its path. Both documents have the same values."""
    values = {
        "at": "2026-01-31T23:59:59.5Z",
        "customer": "ACME Trading Company Ltd.",
        "city": "Rotterdam",
        "amount": "12345.67",
        "count": "42",
    }
    begin, end = '<events><event id="0198f2c4" kind="order">', "</event></events>"
    middle = "".join(f"<{name}>{value}</{name}>" for name, value in values.items())
    note = "x" * (EVENT_BYTES - len(begin + middle + "<note></note>" + end))
    document = f"{begin}{middle}<note>{note}</note>{end}"
    item = {"id": "0198f2c4", "kind": "order", **values, "note": note}
    return {"/xml": document.encode(), "/json": json.dumps(item, separators=(",", ":")).encode()}


class Plain(TollgateProxy):
    name = "proxy"


class Choosing(TollgateProxy):
    name = "when, 3 rules"
    port = 8233
    files = {"xml-routes.toml": "tollgate.toml"}

    def answers(self):
        try:
            return self.ask("POST", "/fixed", message())[0] == 200
        except OSError:
            return False


class Rows(Tollgate):
    port = 8234
    files = {"xml-rows.toml": "tollgate.toml"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["routes", "rows"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    install_packages({"nginx-light", *Wrk.packages})
    tell(machine())
    parts = {"routes": study_routes, "rows": study_rows}
    with tempfile.TemporaryDirectory(prefix="tollgate-xml-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        wanted = [arguments.only] if arguments.only else list(parts)
        # Each part runs, also if an earlier part missed its goal.
        results = [parts[part](folder, arguments) for part in wanted]
        if not all(results):
            sys.exit(1)


def study_routes(folder: Path, arguments) -> bool:
    backend = Backend(folder / "backend")
    backend.start()
    try:
        load = Wrk("/fixed", 64, body=message())
        costs: dict[type[Tollgate], list[float]] = {Plain: [], Choosing: []}
        for _ in range(arguments.rounds):
            for kind, found in costs.items():
                found.append(run(kind(folder / kind.__name__), load, arguments.seconds)[0])
    finally:
        backend.stop()
    further = [ours - plain for plain, ours in zip(costs[Plain], costs[Choosing], strict=True)]
    tell(
        f"routes: proxy {median(costs[Plain]):.2f} us, 3 rules {median(costs[Choosing]):.2f} us: "
        f"{median(further):+.2f} us ({min(further):+.2f} to {max(further):+.2f}), goal +{ROUTES_GOAL_US} us"
    )
    return median(further) <= ROUTES_GOAL_US


def study_rows(folder: Path, arguments) -> bool:
    turns: dict[str, list[tuple[float, Figures]]] = {path: [] for path in events()}
    for _ in range(arguments.rounds):
        for path, body in events().items():
            turns[path].append(run(Rows(folder / "rows"), Wrk(path, 64, body=body), arguments.seconds))
    for path, found in turns.items():
        cpu_us, rate = median(cpu for cpu, _ in found), median(figures.rate for _, figures in found)
        tell(f"rows: {path} {cpu_us:.2f} us, {rate:,.0f}/s")
    share = share_of(*[[figures.rate for _, figures in turns[path]] for path in ("/xml", "/json")])
    tell(f"rows: XML at {share} of the rate of JSON, goal {ROWS_GOAL}")
    return share.middle >= ROWS_GOAL


def run(server: Tollgate, load: Wrk, seconds: float) -> tuple[float, Figures]:
    """Returns the processor time of the server for each request, and the figures of the load."""
    server.start()
    try:
        load.run(server.port, WARMUP_S)
        before = server.cpu_s()
        figures = load.run(server.port, seconds)
        spent = server.cpu_s() - before
    finally:
        server.stop()
    if figures.errors:
        raise RuntimeError(f"{server.name}: {figures.errors} of {figures.requests} requests failed")
    return spent / figures.requests * 1e6, figures
