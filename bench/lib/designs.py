"""Whole paths from a request to its row in PostgreSQL. Each is a server that can wait for all its rows."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lib import broker
from lib.cluster import Cluster
from lib.servers import PEERS, PROGRAM, ROOT, SERVER_CORE, Nginx, Server, Tollgate, first_line
from lib.usage import cpu_s_of, process_tree

DRAIN_TIMEOUT_S = 300
#: The request of all designs.
PATH = "/recorded?x=20"
GO_PROGRAMS = ROOT / "target/bench/go"
#: Connections of a pool that inserts. Among 8, 16, 32 and 64, this number gave the highest rate.
POOL = 32
COLUMNS = {
    "at": "timestamp with time zone",
    "client": "inet",
    "path": "text",
    "status": "bigint",
    "took_us": "bigint",
    "score": "double precision",
}


class Design(Server):
    """One path from a request to the table `scores`. `durable` says what a reply promises about the row."""

    def __init__(self, folder: Path, cluster: Cluster):
        super().__init__(folder)
        self.cluster = cluster

    def absent(self) -> str | None:
        """Returns why this design cannot run on this machine. `None`: it can."""
        return None

    def make_ready(self) -> int:
        """Waits until a request succeeds. Returns the number of requests that it sent."""
        return 0

    def database(self) -> str:
        return f"host={self.cluster.folder} user=bench dbname=postgres"

    def prepare(self):
        super().prepare()
        self.cluster.sql("DROP SCHEMA IF EXISTS tollgate CASCADE", "DROP TABLE IF EXISTS scores")
        self.make_table()

    def make_table(self):
        columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        self.cluster.sql(f"CREATE TABLE scores ({columns})")

    def drain(self):
        """Waits until the rows of all replies are in the table."""

    def roots(self) -> list[int]:
        """Returns the processes of the web side: all except the database."""
        return [self.process.pid]

    def cpu_s(self):
        return cpu_s_of(self.roots())


class Direct(Design):
    name = "an INSERT per request"
    port = 8230
    durable = "the row is committed"

    def absent(self):
        return absent_go("direct")

    def command(self):
        return [
            str(GO_PROGRAMS / "direct"),
            f"127.0.0.1:{self.port}",
            f"{self.database()} pool_max_conns={POOL}",
        ]

    def version(self):
        return go_version()


class Queued(Design):
    name = "a queue, then an INSERT each"
    port = 8231
    durable = "Redis has synced it; the row follows"
    packages = ("redis-server",)

    def absent(self):
        return absent_go("enqueue") or (
            None if shutil.which("redis-server") else "redis-server is not installed"
        )

    def command(self):
        return [str(GO_PROGRAMS / "enqueue"), f"127.0.0.1:{self.port}", str(self.socket)]

    @property
    def socket(self) -> Path:
        return self.folder / "redis.sock"

    def start(self):
        super().start()
        self.broker = spawn(
            self.folder,
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--dir",
            str(self.folder),
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        )
        wait_until(self.socket.exists)
        self.worker = spawn(
            self.folder,
            str(GO_PROGRAMS / "dequeue"),
            str(self.socket),
            f"{self.database()} pool_max_conns={POOL}",
        )

    def drain(self):
        wait_until(
            lambda: first_line(["redis-cli", "-s", str(self.socket), "XLEN", "scores"]) == "0", [self.worker]
        )

    def stop(self):
        super().stop()
        for process in (self.worker, self.broker):
            process.terminate()
            process.wait(60)

    def roots(self):
        return [self.process.pid, self.broker.pid, self.worker.pid]

    def version(self):
        return first_line(["redis-server", "--version"]).split(" sha=")[0]


class LoggedByHand(Design, Nginx):
    name = "nginx + Lua, buffered log, \\copy"
    port = 8232
    durable = "in a buffer of the process; rows when the log is copied"
    files = {"nginx-rows.conf": "nginx.conf", "nginx-rows.lua": "rows.lua"}
    copy_cpu_s = 0.0

    def drain(self):
        """Renames the log, waits until nginx has closed the old file, and copies that file into the table."""
        log, turned = self.folder / "record.log", self.folder / "turned.log"
        log.rename(turned)
        self.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: log.exists() and not self.has_open(turned))
        before = os.times()
        self.cluster.sql(f"\\copy scores from '{turned}' csv", core=SERVER_CORE)
        after = os.times()
        self.copy_cpu_s += (
            after.children_user + after.children_system - before.children_user - before.children_system
        )

    def cpu_s(self):
        return super().cpu_s() + self.copy_cpu_s

    def has_open(self, file: Path) -> bool:
        folders = [Path(f"/proc/{pid}/fd") for pid in process_tree(self.process.pid)]
        return any(
            os.readlink(descriptor) == str(file) for folder in folders for descriptor in folder.iterdir()
        )


class Loaded(Design, Tollgate):
    """Tollgate with PostgreSQL as its sink, loaded by the server while it runs."""

    port = 8233
    loads = True

    @property
    def sink(self):
        return f'postgres = "{self.database()}"'

    def absent(self):
        Tollgate.prepare(self)
        checked = subprocess.run(
            [str(PROGRAM), "check", str(self.folder)], capture_output=True, text=True, check=False
        )
        if checked.returncode == 0:
            return None
        return (
            "the program at hand refuses it: "
            f"{checked.stderr.strip().splitlines()[0].removeprefix(f'{self.folder}/')}"
        )

    def make_table(self):
        """Does nothing, because the loader inserts the rows while the server runs."""

    def drain(self):
        wait_until(lambda: self.audit().get("pending") == 0, [self.process])

    def recorded(self) -> int:
        command = [str(PROGRAM), "status", "--json", str(self.folder)]
        status = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return json.loads(status)["log"]["records"]

    def rows(self) -> int:
        if self.cluster.sql("SELECT to_regclass('scores') IS NOT NULL") == "f":
            return 0
        return int(self.cluster.sql("SELECT count(*) FROM scores"))


class LoadedBeforeReply(Loaded):
    name = "Tollgate, loaded"
    ack = "loaded"
    durable = "the row is committed"


class LoadedFromSynced(Loaded):
    name = "Tollgate, synced"
    ack = "synced"
    durable = "the log is synced; the row follows"


class LoadedFromWritten(Loaded):
    name = "Tollgate, written"
    ack = "written"
    durable = "the operating system has it; the row follows"


class HandedOver(Loaded):
    """The server ships its segments to a folder, and another process loads them from there."""

    name = "Tollgate, synced, handed over by a folder"
    ack = "synced"
    port = 8234
    durable = "the log is synced; the row follows when its segment is sealed and fetched"
    sink = ""

    def prepare(self):
        super().prepare()
        store, configuration = self.folder / "handover", self.folder / "tollgate.toml"
        store.mkdir()
        text = configuration.read_text().replace('segment_age_max = "10m"', 'segment_age_max = "1s"')
        configuration.write_text(f'{text}\n[ship.main]\ndir = "{store}"\n')
        (self.folder / "load.toml").write_text(f'[sink.main]\npostgres = "{self.database()}"\n')

    def start(self):
        super().start()
        store, configuration = str(self.folder / "handover"), str(self.folder / "load.toml")
        self.loader = spawn(self.folder, str(PROGRAM), "load", "--from", store, configuration)

    def drain(self):
        """Waits until the other process has loaded all records. It looks for a segment every five seconds."""
        wait_until(lambda: self.rows() == self.recorded(), [self.process, self.loader])

    def stop(self):
        super().stop()
        self.loader.terminate()
        self.loader.wait(60)

    def roots(self):
        return [self.process.pid, self.loader.pid]


class QueuedInKafka(Loaded):
    """The reply waits for a Kafka broker, and another process loads the topic."""

    name = "Tollgate, queued in Kafka, loaded from the topic"
    ack = "queued"
    port = 8235
    durable = "Kafka has committed it, in its memory; the row follows"
    sink = f'kafka = "{broker.Broker.address}"\ntopic = "bench.{{stream}}"\npartitions = 3'

    def absent(self):
        return super().absent() if broker.jars() else "Kafka is not installed: make kafka"

    def start(self):
        # The start of the server clears its own folder.
        self.broker = broker.Broker(self.folder.with_name("kafka"))
        shutil.rmtree(self.broker.folder, ignore_errors=True)
        self.broker.start()
        super().start()
        configuration = self.folder / "load.toml"
        configuration.write_text(f'[sink.main]\npostgres = "{self.database()}"\n')
        source = f"kafka://{self.broker.address}"
        self.loader = spawn(self.folder, str(PROGRAM), "load", "--from", source, str(configuration))

    def make_ready(self) -> int:
        """Sends requests until one is queued. The broker makes its topics first, which may take long."""
        self.asked = 0
        wait_until(self.takes_records, [self.process, self.loader, self.broker.process])
        return self.asked

    def takes_records(self) -> bool:
        self.asked += 1
        with contextlib.suppress(OSError):
            return self.ask("GET", PATH)[0] == 200
        return False

    def drain(self):
        wait_until(lambda: self.rows() == self.recorded(), [self.process, self.loader, self.broker.process])

    def stop(self):
        super().stop()
        self.loader.terminate()
        self.loader.wait(60)
        self.broker.stop()

    def roots(self):
        return [self.process.pid, self.loader.pid, self.broker.process.pid]

    def version(self):
        return broker.version()


DESIGNS = [
    Direct,
    LoadedBeforeReply,
    LoadedFromSynced,
    LoadedFromWritten,
    HandedOver,
    LoggedByHand,
    Queued,
    QueuedInKafka,
]


def spawn(folder: Path, *command: str) -> subprocess.Popen:
    """Starts a further process of a design on the core of the server."""
    with open(folder / f"{Path(command[0]).name}.txt", "wb") as log:
        return subprocess.Popen(["taskset", "-c", SERVER_CORE, *command], stdout=log, stderr=log, cwd=folder)


def wait_until(is_so, needed: list[subprocess.Popen] = ()):
    """Repeats a check until it is true. Fails if a required process ends."""
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while not is_so():
        ended = [process.args for process in needed if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError(f"{ended[0]} has ended" if ended else f"not drained in {DRAIN_TIMEOUT_S} s")
        time.sleep(0.02)


def build_go() -> None:
    """Builds the Go peers if there is a compiler."""
    if shutil.which("go"):
        GO_PROGRAMS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", f"{GO_PROGRAMS}/", "./..."], cwd=PEERS / "go", check=True)


def absent_go(program: str) -> str | None:
    return None if (GO_PROGRAMS / program).exists() else "go is not installed"


def go_version() -> str:
    modules = [
        line.split()
        for line in (PEERS / "go/go.mod").read_text().splitlines()
        if line.startswith("\tgithub.com") and "//" not in line
    ]
    return ", ".join(
        [first_line(["go", "version"]), *(f"{path.split('/', 1)[1]} {version}" for path, version in modules)]
    )
