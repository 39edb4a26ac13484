"""The compared servers: how each is set up in a folder, started on one core, measured and counted."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

from lib.usage import cpu_s_of, memory_mib_of

BENCH = Path(__file__).parent.parent
ROOT = BENCH.parent
PEERS = BENCH / "peers"
PROGRAM = Path(os.environ.get("TOLLGATE", ROOT / "target/release/tollgate"))
# The two cores of the bench. If there is only one core, server and clients share it, and the figures have
# little meaning.
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = str(CORES[0]), str(CORES[min(1, len(CORES) - 1)])
START_TIMEOUT_S = 20


class Server:
    """One server. `name` is the name in the report. `durable` says what a reply promises about the record."""

    name = ""
    durable = "nothing is recorded"
    host = "127.0.0.1"
    port = 0
    files: dict[str, str] = {}
    #: Debian's packages of the server.
    packages: tuple[str, ...] = ()

    def __init__(self, folder: Path):
        self.folder = folder
        self.process: subprocess.Popen | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def version(self) -> str:
        return ""

    def substitutions(self) -> dict[str, str]:
        return {"@DIR@": str(self.folder), "@HOST@": self.host, "@PORT@": str(self.port)}

    def prepare(self):
        """Writes the configuration into an empty folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for source, target in self.files.items():
            text = (PEERS / source).read_text()
            for mark, value in self.substitutions().items():
                text = text.replace(mark, value)
            (self.folder / target).write_text(text)

    def start(self):
        self.prepare()
        if self.answers():
            raise RuntimeError(f"{self.name}: another server answers on port {self.port}")
        command = ["taskset", "-c", SERVER_CORE, *self.command()]
        with (self.folder / "output.txt").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.name} does not start: {(self.folder / 'output.txt').read_text()[-2000:]}"
                )
            time.sleep(0.02)

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/fixed")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def stop(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def memory_mib(self) -> float:
        return memory_mib_of(self.process.pid)

    def cpu_s(self) -> float:
        """Returns the processor time of the server and its children so far, user and system."""
        return cpu_s_of([self.process.pid])

    def records(self) -> int:
        """Returns the number of stored records, after a stop."""
        return 0

    def bytes_on_disk(self) -> int:
        return 0


def first_line(command: list[str]) -> str:
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    return (output.stdout + output.stderr).strip().split("\n")[0]


class Tollgate(Server):
    name = "tollgate"
    port = 8210
    program = PROGRAM
    ack = "synced"
    loads = False
    #: The line of `[sink.main]` that names its database. Empty: SQLite in the folder.
    sink = ""
    files = {
        "tollgate.toml": "tollgate.toml",
        "tollgate-score.luau": "score.luau",
        "tollgate-recorded.luau": "recorded.luau",
    }

    def substitutions(self):
        return super().substitutions() | {"@ACK@": self.ack}

    def prepare(self):
        super().prepare()
        if self.sink:
            with (self.folder / "tollgate.toml").open("a") as configuration:
                configuration.write(f"\n[sink.main]\n{self.sink}\n")

    def command(self):
        return [str(self.program), "serve", str(self.folder), *([] if self.loads else ["--no-load"])]

    def version(self):
        return first_line([str(self.program), "--version"])

    def audit(self) -> dict[str, int]:
        """Returns the counts of records by outcome, over all logs."""
        output = subprocess.run(
            [str(self.program), "audit", str(self.folder)], capture_output=True, text=True, check=False
        )
        names, counts = [], {}
        for line in output.stdout.splitlines():
            words = line.split()
            if words[:1] == ["log"]:
                names = words[2:]
            elif words[:1] == ["all"]:
                # A sum has no machine, which is the last column.
                for name, count in zip(names, words[2:], strict=False):
                    counts[name] = counts.get(name, 0) + int(count)
        return counts

    def records(self):
        return self.audit().get("ingested", 0)

    def bytes_on_disk(self):
        return sum(file.stat().st_size for file in (self.folder / "data/log").rglob("*") if file.is_file())


def tollgate(ack: str, loads: bool = False) -> type[Tollgate]:
    """Returns Tollgate with an ack level, with the loader on the server's core or stopped."""
    suffix = " + SQLite" if loads else ""
    durable = {
        "received": "in memory",
        "written": "written to the operating system",
        "synced": "synced to disk",
    }[ack]
    members = {"name": f"tollgate, {ack}{suffix}", "ack": ack, "loads": loads, "durable": durable}
    return type(f"Tollgate_{ack}_{loads}", (Tollgate,), members)


def before(server: type[Tollgate], program: Path) -> type[Tollgate]:
    """Returns this server with the program of another build, to compare two builds in one run."""
    members = {"name": f"before: {server.name}", "program": program}
    return type(f"Before_{server.__name__}", (server,), members)


def metrics_of(folder: Path) -> str:
    """Returns the metrics of the server in a folder."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(folder / "data/log/admin.sock"))
        peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return b"".join(iter(lambda: peer.recv(65536), b"")).decode()


class Instance:
    """Tollgate with a configuration and scripts, without a loader.

    It runs on the core of the server unless `cores` names other cores.
    """

    def __init__(
        self,
        folder: Path,
        configuration: str,
        scripts: dict[str, str],
        cores: str = SERVER_CORE,
        program: Path = PROGRAM,
    ):
        (folder / "tollgate.toml").write_text(configuration)
        for name, text in scripts.items():
            (folder / name).write_text(text)
        command = ["taskset", "-c", cores, str(program), "serve", "--no-load", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.folder = folder
        #: The ports of the addresses, in the order of the configuration.
        self.ports = []
        while (line := self.process.stdout.readline()).startswith("serving "):
            self.ports.append(int(line.split()[1].rsplit(":", 1)[1]))
        self.port = self.ports[0]

    def memory_mib(self) -> float:
        return memory_mib_of(self.process.pid)

    def sample(self, series: str) -> int:
        """Returns a value of the metrics, such as that of `name{label="value"}`, or 0."""
        found = re.search(rf"^{re.escape(series)} (\d+)$", metrics_of(self.folder), re.MULTILINE)
        return int(found[1]) if found else 0

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Logged(Server):
    """A peer that records into a buffered log file, a line for each record."""

    durable = "in a buffer of the process"

    def records(self):
        log = self.folder / "record.log"
        return sum(1 for line in log.open("rb") if line.strip()) if log.exists() else 0

    def bytes_on_disk(self):
        log = self.folder / "record.log"
        return log.stat().st_size if log.exists() else 0


class Nginx(Logged):
    name = "nginx + Lua"
    port = 8211
    packages = ("nginx-light", "libnginx-mod-http-lua")
    files = {"nginx.conf": "nginx.conf", "nginx-score.lua": "score.lua", "nginx-event.lua": "event.lua"}

    def command(self):
        return ["nginx", "-c", str(self.folder / "nginx.conf")]

    def version(self):
        return first_line(["nginx", "-v"])


class Lighttpd(Logged):
    name = "lighttpd + mod_magnet"
    port = 8212
    packages = ("lighttpd", "lighttpd-modules-lua")
    files = {
        "lighttpd.conf": "lighttpd.conf",
        "lighttpd-fixed.lua": "fixed.lua",
        "lighttpd-score.lua": "score.lua",
        "lighttpd-recorded.lua": "recorded.lua",
    }

    def command(self):
        return ["lighttpd", "-D", "-f", str(self.folder / "lighttpd.conf")]

    def version(self):
        return first_line(["lighttpd", "-v"])


class H2o(Server):
    name = "h2o"
    port = 8213
    packages = ("h2o",)
    files = {"h2o.conf": "h2o.conf"}

    def prepare(self):
        super().prepare()
        (self.folder / "fixed.txt").write_text("hello, world\n")

    def command(self):
        return ["h2o", "-c", str(self.folder / "h2o.conf")]

    def version(self):
        return first_line(["h2o", "--version"])


class Yaws(Server):
    name = "Yaws appmod"
    port = 8214
    packages = ("yaws", "erlang-base")
    files = {"yaws.conf": "yaws.conf", "yaws-score.erl": "score.erl", "yaws-fixed.erl": "fixed.erl"}

    def prepare(self):
        super().prepare()
        subprocess.run(["erlc", "score.erl"], cwd=self.folder, check=True)
        subprocess.run(["erlc", "fixed.erl"], cwd=self.folder, check=True)

    def command(self):
        return ["yaws", "-i", "--conf", str(self.folder / "yaws.conf")]

    def version(self):
        return first_line(["yaws", "--version"])


class SyncLoop(Server):
    """A loop that writes 128 bytes and syncs them: the limit for one client alone."""

    name = "bare write + fdatasync loop"
    growth = "append"

    def run(self, seconds: float) -> float:
        """Returns the syncs per second."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return rate_of_loop("sync", [str(self.folder / "sync"), "128", str(seconds), self.growth])


class RunwaySyncLoop(SyncLoop):
    """The sync loop in a file that grows by 128 KiB of zeros at a time, as segments do.

    Most syncs then change no metadata.
    """

    name = "bare write + fdatasync loop, 128 KiB ahead"
    growth = "runway"


class Epoll(Server):
    name = "bare epoll loop"
    port = 8215

    def command(self):
        return [str(built("epoll")), str(self.port)]


@contextmanager
def loops(cores: Iterable[str], *run_by: str):
    """Starts a busy loop on each core."""
    running = []
    try:
        running += (
            subprocess.Popen(["taskset", "-c", core, *run_by, "sh", "-c", "while :; do :; done"])
            for core in cores
        )
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def cores_kept_awake():
    """Keeps both cores busy when nothing else runs, at the lowest priority: SCHED_IDLE of sched(7).

    The host of a virtual machine takes an idle core away, and returns it late. Without these loops, the p99
    of a route that was measured alone was 0.3 to 5 ms. With them, it is 0.27 to 0.33 ms.
    """
    return loops({SERVER_CORE, LOAD_CORE}, "chrt", "--idle", "0")


def built(program: str, *libraries: str) -> Path:
    """Compiles one of the bare loops."""
    target = ROOT / "target/bench" / program
    source = PEERS / f"{program}.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-o", str(target), str(source), *libraries], check=True)
    return target


def rate_of_loop(program: str, arguments: list[str], *libraries: str) -> float:
    """Runs a bare loop on the server's core, and returns the rate that it prints."""
    command = ["taskset", "-c", SERVER_CORE, str(built(program, *libraries)), *arguments]
    return float(
        re.findall(r"[\d.]+", subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]
    )
