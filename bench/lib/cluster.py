"""A PostgreSQL cluster for one run, made in its folder with the settings of `initdb`.

A server that runs already is never used. If root starts the run, the cluster belongs to Debian's user
postgres. The superuser of the cluster is `bench`, and needs no password on the socket.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from glob import glob
from pathlib import Path

#: Debian's packages of PostgreSQL.
PACKAGES = {"postgresql", "util-linux"}
OWNER = "postgres"
PATH = os.pathsep.join([*sorted(glob("/usr/lib/postgresql/*/bin")), os.environ["PATH"]])
ENVIRONMENT = {**os.environ, "PATH": PATH}


class Cluster:
    """A server with a socket in the folder, on all cores or on the given core."""

    def __init__(self, folder: Path, core: str | None = None):
        self.folder = folder
        if os.geteuid() == 0:
            shutil.chown(folder, OWNER)
        folder.chmod(0o755)
        self.run("initdb", "-D", "data", "-A", "trust", "-U", "bench")
        start = [
            "pg_ctl",
            "-D",
            "data",
            "-o",
            f"-k {folder} -c listen_addresses=",
            "-l",
            "log",
            "-w",
            "start",
        ]
        self.run(*(["taskset", "-c", core, *start] if core else start))
        self.pid = int((folder / "data/postmaster.pid").read_text().split()[0])

    def run(self, *command: str):
        as_owner = (
            ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"] if os.geteuid() == 0 else []
        )
        subprocess.run(
            [*as_owner, *command], cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True
        )

    def sql(self, *statements: str, core: str | None = None) -> str:
        """Returns the output of psql for the last statement. psql runs on the cores of this program, or on
        the given core.
        """
        command = [*(["taskset", "-c", core] if core else []), *self.psql()]
        for statement in ["SET client_min_messages = warning", *statements]:
            command += ["-c", statement]
        return subprocess.run(
            command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()

    def psql(self) -> list[str]:
        return ["psql", "-h", str(self.folder), "-U", "bench", "-qAt", "-v", "ON_ERROR_STOP=1", "postgres"]

    def session(self) -> Session:
        return Session(self.psql())

    def stop(self):
        self.run("pg_ctl", "-D", "data", "-m", "fast", "stop")


class Session:
    """One connection for many short questions, because psql would start a process for each."""

    END = "end of rows"

    def __init__(self, psql: list[str]):
        self.process = subprocess.Popen(
            psql, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, statement: str) -> list[list[str]]:
        """Runs a statement and returns its rows as texts."""
        self.process.stdin.write(f"{statement};\n\\echo {self.END}\n")
        self.process.stdin.flush()
        rows = []
        for line in self.process.stdout:
            if line == f"{self.END}\n":
                return rows
            rows.append(line.rstrip("\n").split("|"))
        raise RuntimeError(f"psql has ended at: {statement}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
