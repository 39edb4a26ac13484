"""`ack = "queued"` beside Kafka's producer, and routes while the broker is frozen: `bench/study.py queue`.

Part `records`: clients post arrays of records, and each reply waits until the broker has committed them, as
JSON or as rows. The producer benchmark of Kafka then sends the same records: the values that the topic of
JSON has, as many, with acks=all. The tables count records a second.

Part `frozen`: a steady load on a route with `ack = "synced"`, before and while the broker is frozen, in
rounds one after the other. Both runs have the same rate.

Needs root for the packages, and the jars of `make kafka`.
"""

import argparse
import json
import re
import tempfile
import threading
import urllib.request
from pathlib import Path
from statistics import median

from lib.broker import Broker, version
from lib.load import Oha, Wrk
from lib.packages import install_oha, install_packages, tell
from lib.report import duration, machine
from lib.servers import Tollgate

TOPIC = "bench.json.events"
RECORDS_OF_REQUEST = 500
CONNECTIONS = 16
WARMUP_S = 3
RATIO_MIN, P99_MAX = 0.8, 1.5
RECORD = {"kind": "purchase", "user": "user-000000", "amount": 4200, "note": "a note of some words"}


class Queued(Tollgate):
    """Tollgate with a stream that waits for the broker, and another that waits for the disk."""

    name = "Tollgate, queued"
    port = 8236
    loads = True
    format = "json"

    @property
    def sink(self) -> str:
        topic = f'topic = "bench.{self.format}.{{stream}}"\npartitions = 3'
        return f'kafka = "{Broker.address}"\nformat = "{self.format}"\n{topic}'

    def prepare(self):
        super().prepare()
        configuration = self.folder / "tollgate.toml"
        streams, events = configuration.read_text().split("[stream.events]\n")
        events = events.replace('ack = "synced"', 'ack = "queued"\nack_timeout = "60s"', 1)
        configuration.write_text(f"{streams}[stream.events]\n{events}")


class QueuedRows(Queued):
    """The same with rows instead of JSON."""

    name = "Tollgate, queued as rows"
    port = 8237
    format = "row"


def main():
    arguments = parse()
    install_packages(set(Wrk.packages))
    if arguments.only != "records":
        install_oha()
    print(f"{machine()}. Server, broker and producer share a core, the clients have another one.")
    print(version(), flush=True)
    with tempfile.TemporaryDirectory(prefix="tollgate-queue-") as name:
        folder = Path(name)
        broker = Broker(folder / "kafka")
        server = Queued(folder / "tollgate")
        broker.start()
        try:
            server.start()
            until_queued(server)
            for part, study in PARTS.items():
                if arguments.only in (None, part):
                    print("\n".join(["", *study(broker, server, arguments)]), flush=True)
        finally:
            server.stop()
            broker.stop()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each run is repeated")
    parser.add_argument("--seconds", type=float, default=8, help="how long requests are sent in a run")
    parser.add_argument(
        "--rate", type=int, default=1000, help="requests a second on the route that is synced"
    )
    parser.add_argument("--only", choices=list(PARTS), help="one part to run")
    return parser.parse_args()


def until_queued(server: Queued):
    """Sends records until the broker has one."""
    for _ in range(600):
        if server.ask("POST", "/event", json.dumps(RECORD).encode())[0] < 300:
            return
    raise RuntimeError(f"the broker takes no record: see {server.folder / 'output.txt'}")


def records(broker: Broker, server: Queued, arguments) -> list[str]:
    body = json.dumps([RECORD] * RECORDS_OF_REQUEST).encode()
    load = Wrk("/event", CONNECTIONS, body=body)
    load.run(server.port, WARMUP_S)
    values = values_of(broker)
    of_rows = QueuedRows(server.folder.with_name("rows"))
    of_rows.start()
    rows = []
    try:
        until_queued(of_rows)
        load.run(of_rows.port, WARMUP_S)
        for number in range(arguments.rounds):
            rates = [queued(load, port, arguments.seconds) for port in (server.port, of_rows.port)]
            producer = produced(broker, values, int(rates[0] * arguments.seconds))
            rows.append((*rates, producer))
            tell(
                f"  {number + 1}/{arguments.rounds}  JSON {rates[0]:.0f}/s, rows {rates[1]:.0f}/s, "
                f"producer {producer:.0f}/s"
            )
    finally:
        of_rows.stop()
    as_json, as_rows, producer = (median(column) for column in zip(*rows, strict=True))
    ratios = [median(rates[place] / rates[2] for rates in rows) for place in (0, 1)]
    verdict = "met" if ratios[0] >= RATIO_MIN else "**missed**"
    return [
        f"{RECORDS_OF_REQUEST} records a request, {CONNECTIONS} connections, {arguments.rounds} rounds, medians.",
        "",
        "| writer | records/s | of the producer |",
        "| --- | --- | --- |",
        f'| clients of `ack = "queued"` | {as_json:,.0f} | {ratios[0]:.2f} |',
        f'| the same, `format = "row"` | {as_rows:,.0f} | {ratios[1]:.2f} |',
        f"| Kafka's producer benchmark, acks=all | {producer:,.0f} | |",
        "",
        f"Goal: at least {RATIO_MIN} of the producer benchmark: {ratios[0]:.2f}, {verdict}.",
    ]


def queued(load: Wrk, port: int, seconds: float) -> float:
    """Returns the records a second that a server queued."""
    sent = load.run(port, seconds)
    if sent.errors:
        raise RuntimeError(f"{sent.errors} of {sent.requests} requests failed")
    return sent.requests * RECORDS_OF_REQUEST / sent.seconds


def values_of(broker: Broker) -> Path:
    """Writes values of the topic to a file for the producer benchmark, one a line."""
    text = broker.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.address, "--topic", TOPIC, "--from-beginning"),
        *("--isolation-level", "read_committed", "--max-messages", "10000", "--timeout-ms", "30000"),
    )
    file = broker.folder / "values.txt"
    file.write_text(text)
    return file


def produced(broker: Broker, values: Path, count: int) -> float:
    """Returns the records a second of Kafka's producer benchmark."""
    text = broker.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", TOPIC, "--num-records", str(count), "--throughput", "-1"),
        *(
            "--payload-file",
            str(values),
            "--producer-props",
            f"bootstrap.servers={broker.address}",
            "acks=all",
        ),
    )
    return float(re.findall(r"([\d.]+) records/sec", text)[-1])


def frozen(broker: Broker, server: Queued, arguments) -> list[str]:
    load = Oha("/recorded?x=20", rate_per_s=arguments.rate)
    load.run(server.port, WARMUP_S)
    ratios, rows = [], []
    for number in range(arguments.rounds):
        until_queued(server)
        before = load.run(server.port, arguments.seconds)
        broker.freeze()
        waiting = threading.Thread(target=post_unanswered, args=(server,))
        waiting.start()
        try:
            during = load.run(server.port, arguments.seconds)
        finally:
            broker.thaw()
            waiting.join()
        if before.errors or during.errors:
            raise RuntimeError(f"{before.errors} and {during.errors} requests failed")
        ratios.append(during.p99_us / before.p99_us)
        rows.append([number + 1, duration(before.p99_us), duration(during.p99_us), f"{ratios[-1]:.2f}"])
    verdict = "met" if median(ratios) <= P99_MAX else "**missed**"
    return [
        f'{arguments.rate} requests a second with `ack = "synced"`, and one that waits for the broker.',
        "",
        "| round | p99 before | p99 while frozen | ratio |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
        "",
        f"Goal: at most {P99_MAX} times the p99 before: {median(ratios):.2f}, {verdict}.",
    ]


def post_unanswered(server: Queued):
    """Sends a record whose reply waits for the broker."""
    request = urllib.request.Request(
        f"http://{server.host}:{server.port}/event", json.dumps(RECORD).encode(), method="POST"
    )
    try:
        urllib.request.urlopen(request, timeout=60).close()
    except OSError as error:
        tell(f"  the reply of the broker's route: {error}")


PARTS = {"records": records, "frozen": frozen}
