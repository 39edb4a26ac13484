"""A Kafka broker for one run, in its folder: one process with the only copy of each topic.

`make kafka` installs its jars. A broker that runs already is never used.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from lib.servers import ROOT, SERVER_CORE

START_TIMEOUT_S = 120
STARTED = "Kafka Server started"
#: Any id of 16 bytes in base64.
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
#: Ports that the system gives to no connection.
PORT, CONTROLLER_PORT = 8290, 8291


def jars() -> Path | None:
    """Returns the folder of the jars. `None`: they are not installed."""
    return max((ROOT / "target/tools").glob("kafka-*"), default=None)


class Broker:
    """A broker on the core of the server, which runs until `stop`."""

    address = f"127.0.0.1:{PORT}"

    def __init__(self, folder: Path):
        self.folder = folder
        self.process = None

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{CONTROLLER_PORT}",
            f"listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{CONTROLLER_PORT}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={self.folder / 'data'}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
        ]
        (self.folder / "server.properties").write_text("\n".join(lines) + "\n")
        format_command = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties"]
        self.run(*format_command)
        with (self.folder / "output.txt").open("wb") as log:
            self.process = subprocess.Popen(
                self.java("kafka.Kafka", "server.properties"), stdout=log, stderr=log, cwd=self.folder
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while STARTED not in (self.folder / "output.txt").read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker does not start: see {self.folder / 'output.txt'}")
            time.sleep(0.05)

    def java(self, *arguments: str) -> list[str]:
        """Returns the command that runs a class of the jars."""
        return [
            *("taskset", "-c", SERVER_CORE, "java", "-Xmx1g"),
            *(
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-Dorg.slf4j.simpleLogger.log.kafka.server=info",
            ),
            *("-cp", f"{jars()}/*", *arguments),
        ]

    def run(self, *arguments: str) -> str:
        """Runs a class of the jars until it ends. Returns its output."""
        return subprocess.run(
            self.java(*arguments), cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.thaw()
            self.process.kill()
            self.process.wait()


def version() -> str:
    return f"Apache Kafka {jars().name.removeprefix('kafka-')}, one broker, one copy"
