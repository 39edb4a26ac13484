#!/usr/bin/env python3
"""Runs real clients against a server, and checks the rows that they leave: `tests/senders/run.py [NAME ...]`.

Each sender is a folder next to this file:

    tollgate.toml     the configuration of the server, without `listen`
    prepare.sh        makes certificates in the folder of the server, whose address then uses TLS
    *.luau            the scripts of this configuration
    send*             programs that send to the URL in the variable TOLLGATE_URL, and end with 0; the variable
                      TOLLGATE_FOLDER names the folder of the server
    daemon.*          a program that sends to this URL until it is ended, when the rows are there
    rows.sql          the query for the rows that the client must have left
    rows.json         the expected rows: a list with an object for each row
    requirements.txt  the packages of `send*.py` from PyPI, with exact versions
    package.json      the packages of `send*.mjs` from npm, with a package-lock.json
    go.mod            the modules of `send.go`
    packages.txt      packages of Debian, for example for `send*.sh`
    environment.json  variables of the server and of the client, if they need any

install.py installs the packages once, into a folder below target/senders. The server runs in a temporary
folder, on a free port, with copies of tollgate.toml and of the scripts. A sender has passed when the query
returns the expected rows and no record is a reject. The program of the server is target/debug/tollgate, or
the path in the variable TOLLGATE.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from install import ROOT, NotInstalled, install, is_installed, tool

HERE = Path(__file__).resolve().parent
#: Seconds until the server serves, and until the rows are there. A busy machine may need many of them.
PATIENCE = 120
#: Seconds for each program of a client.
SEND_LIMIT = 120


class Fault(Exception):
    """A sender that did not leave its rows, with the reason."""


class Server:
    """A server in its own folder, from its start until `close`."""

    def __init__(self, program: Path, folder: Path, environment: dict):
        self.program, self.folder, self.environment = program, folder, environment
        self.log = folder / "stderr"
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(
                [program, "serve", folder], stdout=subprocess.DEVNULL, stderr=stderr, env=environment
            )

    def url(self) -> str:
        """Waits until the server serves, and returns its URL."""

        def found():
            serving = re.search(r"https?://127\.0\.0\.1:\d+", self.log.read_text())
            return serving and serving[0]

        return self.until("the server serves", found)

    def rows(self, query: str) -> list:
        """Returns the rows of a query, or an empty list while its table is not there."""
        command = [self.program, "sql", "--config", self.folder, "--format", "json", query]
        result = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)
        return [json.loads(line) for line in result.stdout.splitlines()] if result.returncode == 0 else []

    def rejects(self) -> list:
        """Returns the reasons of the rejects, with the beginnings of their items."""
        return self.rows("SELECT reason, substr(text, 1, 400) AS item FROM tollgate_rejects")

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


def programs(sender: Path) -> list[Path]:
    """Returns the programs of a sender in the order of their names."""
    return sorted(path for path in sender.glob("send*") if path.suffix in COMMANDS)


def python_command(path: Path, packages: Path, environment: dict) -> list:
    environment["PYTHONPATH"] = f"{packages / 'python'}:{HERE}"
    environment["PACKAGES"] = str(packages)
    return [sys.executable, path]


def node_command(path: Path, packages: Path, _: dict) -> list:
    # Node looks for packages in the folder of the program.
    return [tool("node"), shutil.copy(path, packages)]


#: The command for a program, by the ending of its name.
COMMANDS = {
    ".py": python_command,
    ".mjs": node_command,
    ".go": lambda path, packages, environment: [packages / "send"],
    ".sh": lambda path, packages, environment: ["bash", "-euo", "pipefail", path],
}


def start(path: Path, packages: Path, folder: Path, environment: dict) -> subprocess.Popen:
    """Starts a program of a client in a folder and in a session of its own."""
    environment = dict(environment)
    command = COMMANDS[path.suffix](path, packages, environment)
    work = folder / path.name
    work.mkdir()
    return subprocess.Popen(command, env=environment, cwd=work, start_new_session=True)


def end(process: subprocess.Popen):
    """Ends a program, and all programs that it started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def daemon(sender: Path, packages: Path, folder: Path, environment: dict):
    """Runs the daemon of a sender, if it has one. Gives its process, or None."""
    path = next(sender.glob("daemon.*"), None)
    process = path and start(path, packages, folder, environment)
    try:
        yield process
    finally:
        if process and process.poll() is None:
            end(process)


def send(path: Path, packages: Path, folder: Path, environment: dict):
    """Runs a program of a client. Raises `Fault` if it fails."""
    process = start(path, packages, folder, environment)
    try:
        code = process.wait(SEND_LIMIT)
    finally:
        if process.poll() is None:
            end(process)
    if code != 0:
        raise Fault(f"{path.name} ended with {code}")


def compare(server: Server, sender: Path, process: subprocess.Popen | None):
    """Waits for the rows of a sender. Raises `Fault` if they are not the expected ones."""
    expected = json.loads((sender / "rows.json").read_text())
    query = (sender / "rows.sql").read_text()
    found = []

    def complete():
        if process and process.poll() is not None:
            raise Fault(f"the daemon ended with {process.returncode}")
        found[:] = server.rows(query)
        # A row may count requests, so it is there before its last request is loaded.
        return found == expected or len(found) > len(expected) or server.rejects()

    def differences() -> str:
        lines = [f"found {json.dumps(row)}" for row in found if row not in expected]
        lines += [f"expected {json.dumps(row)}" for row in expected if row not in found]
        lines += [f"reject {json.dumps(row)}" for row in server.rejects()]
        return "\n  ".join([f"{len(found)} rows of {len(expected)}", *lines])

    try:
        server.until(f"{len(expected)} rows", complete)
    except Fault as fault:
        raise Fault(f"{differences()}\n{fault}") from fault
    if found != expected or server.rejects():
        raise Fault(differences())


def prepare(sender: Path, program: Path, folder: Path) -> bool:
    """Makes the certificates of a sender in the folder of the server. Returns whether it has any."""
    script = sender / "prepare.sh"
    if not script.is_file():
        return False
    environment = os.environ | {"TOLLGATE": str(program)}
    command = ["bash", "-euo", "pipefail", script]
    if subprocess.run(command, cwd=folder, env=environment, check=False).returncode != 0:
        raise Fault("prepare.sh failed")
    return True


def check(sender: Path, program: Path):
    """Runs one sender. Raises `Fault` if its rows are not the expected ones."""
    packages = install(sender)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "server")
        folder.mkdir()
        tls = "true" if prepare(sender, program, folder) else "false"
        config = f'[server]\nlisten = [{{ address = "127.0.0.1:0", tls = {tls} }}]\n\n'
        for path in sender.glob("*.luau"):
            shutil.copy(path, folder)
        (folder / "tollgate.toml").write_text(config + (sender / "tollgate.toml").read_text())
        variables = sender / "environment.json"
        environment = os.environ | (json.loads(variables.read_text()) if variables.is_file() else {})
        server = Server(program, folder, environment)
        try:
            environment |= {"TOLLGATE_URL": server.url(), "TOLLGATE_FOLDER": str(folder)}
            with daemon(sender, packages, Path(work), environment) as process:
                for path in programs(sender):
                    send(path, packages, Path(work), environment)
                compare(server, sender, process)
        finally:
            server.close()


def senders() -> list[Path]:
    """Returns the folders of all senders."""
    return sorted(path.parent for path in HERE.glob("*/rows.json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the senders to run; all without a name")
    parser.add_argument("--installed", action="store_true", help="run only those that are installed already")
    options = parser.parse_args()
    names = options.names
    program = Path(os.environ.get("TOLLGATE", ROOT / "target" / "debug" / "tollgate"))
    unknown = set(names) - {sender.name for sender in senders()}
    if unknown:
        parser.error(f"no sender {', '.join(sorted(unknown))}: see {HERE}")
    passed = failed = skipped = 0
    for sender in senders():
        if names and sender.name not in names:
            continue
        if options.installed and not is_installed(sender):
            skipped += 1
            print(f"{sender.name}: not installed", flush=True)
            continue
        begin = time.monotonic()
        try:
            check(sender, program)
            passed += 1
            print(f"{sender.name}: its rows are there after {time.monotonic() - begin:.1f} s", flush=True)
        except (Fault, NotInstalled, subprocess.SubprocessError) as fault:
            failed += 1
            print(f"{sender.name}: {fault}", file=sys.stderr, flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
