#!/usr/bin/env python3
"""Runs real clients against a server, and checks the rows that they leave: `tests/senders/run.py [NAME ...]`.

Each sender is a folder next to this file:

    tollgate.toml     the configuration of the server, without `listen`
    requirements.txt  the packages of the client from PyPI, with exact versions
    send.py           sends to the URL in the variable TOLLGATE_URL, and ends with 0
    rows.sql          the query for the rows that the client must have left
    rows.json         the expected rows: a list with an object for each row

The packages are installed once, into a folder below target/senders. The server runs in a temporary folder, on
a free port. A sender has passed when the query returns the expected rows. The program is
target/debug/tollgate, or the path in the variable TOLLGATE.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: Seconds until the server serves, and until the rows are there. A busy machine may need many of them.
PATIENCE = 60
#: Seconds for the client.
SEND_LIMIT = 120


class Fault(Exception):
    """A sender that did not leave its rows, with the reason."""


class Server:
    """A server in its own folder, from its start until `close`."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder = program, folder
        self.log = folder / "stderr"
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(
                [program, "serve", folder], stdout=subprocess.DEVNULL, stderr=stderr
            )

    def url(self) -> str:
        """Waits until the server serves, and returns its URL."""

        def found():
            serving = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text())
            return serving and serving[0]

        return self.until("the server serves", found)

    def rows(self, query: str) -> list:
        """Returns the rows of a query, or an empty list while its table is not there."""
        command = [self.program, "sql", "--config", self.folder, "--format", "json", query]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return [json.loads(line) for line in result.stdout.splitlines()] if result.returncode == 0 else []

    def until(self, what: str, look):
        """Calls `look` until it returns a value, for at most `PATIENCE`."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Fault(f"the server ended: {self.log.read_text()}")
            if value := look():
                return value
            time.sleep(0.05)
        raise Fault(f"{what}: not within {PATIENCE} s: {self.log.read_text()}")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def installed(sender: Path) -> Path:
    """Installs the packages of a sender, and returns their folder."""
    requirements = sender / "requirements.txt"
    folder = ROOT / "target" / "senders" / sender.name
    stamp = folder / "requirements.txt"
    if not stamp.is_file() or stamp.read_text() != requirements.read_text():
        options = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--upgrade"]
        command = [sys.executable, "-m", "pip", "install", *options, "--target", folder, "-r", requirements]
        subprocess.run(command, check=True)
        stamp.write_text(requirements.read_text())
    return folder


def check(sender: Path, program: Path):
    """Runs one sender. Raises `Fault` if its rows are not the expected ones."""
    packages = installed(sender)
    expected = json.loads((sender / "rows.json").read_text())
    query = (sender / "rows.sql").read_text()
    with tempfile.TemporaryDirectory() as folder:
        config = '[server]\nlisten = ["127.0.0.1:0"]\n\n' + (sender / "tollgate.toml").read_text()
        Path(folder, "tollgate.toml").write_text(config)
        server = Server(program, Path(folder))
        try:
            environment = os.environ | {"TOLLGATE_URL": server.url(), "PYTHONPATH": str(packages)}
            command = [sys.executable, sender / "send.py"]
            sent = subprocess.run(command, env=environment, timeout=SEND_LIMIT, check=False)
            if sent.returncode != 0:
                raise Fault(f"the client ended with {sent.returncode}")
            found = []

            def complete():
                found[:] = server.rows(query)
                return len(found) >= len(expected)

            server.until(f"{len(expected)} rows", complete)
            if found != expected:
                raise Fault(f"found {json.dumps(found)}, expected {json.dumps(expected)}")
        finally:
            server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the senders to run; all without a name")
    names = parser.parse_args().names
    program = Path(os.environ.get("TOLLGATE", ROOT / "target" / "debug" / "tollgate"))
    senders = sorted(path.parent for path in HERE.glob("*/send.py"))
    unknown = set(names) - {sender.name for sender in senders}
    if unknown:
        parser.error(f"no sender {', '.join(sorted(unknown))}: see {HERE}")
    failed = 0
    for sender in senders:
        if names and sender.name not in names:
            continue
        try:
            check(sender, program)
            print(f"{sender.name}: its rows are there", flush=True)
        except (Fault, subprocess.SubprocessError) as fault:
            failed += 1
            print(f"{sender.name}: {fault}", file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
