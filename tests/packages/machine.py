"""Folders with Debian from debootstrap: a Debian 12 in which systemd boots as process 1, and an older one."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASES = ROOT / "target/dist-test"
MIRROR = "http://deb.debian.org/debian"
#: The packages of a small server, with what the test needs in addition: curl and SQLite.
#: A program that GCC links also needs libstdc++6.
INCLUDED = "systemd,systemd-sysv,adduser,init-system-helpers,libstdc++6,ca-certificates,curl,sqlite3"
PATIENCE = 60.0


def run(*command, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def eventually(what: str, condition, patience: float = PATIENCE):
    """Returns the first true result of `condition`, and fails if there is none for `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        if found := condition():
            return found
        if time.monotonic() > end:
            sys.exit(f"failed: {what} did not happen within {patience:.0f} s")
        time.sleep(0.05)


def make_base(release: str, *included: str) -> Path:
    """Makes a folder once. It is kept below target/, because debootstrap loads 100 MB."""
    base = BASES / release
    if not (base / "complete").exists():
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        options = [f"--include={each}" for each in included]
        done = run("debootstrap", "--variant=minbase", *options, release, base, MIRROR)
        if done.returncode:
            sys.exit(f"debootstrap failed: {done.stdout[-2000:]}{done.stderr}")
        (base / "complete").touch()
    return base


class Machine:
    """A copy of the base, booted by systemd-nspawn with a network of its own that has only loopback."""

    def __init__(self, folder: Path):
        self.folder = folder
        run("cp", "--archive", make_base("bookworm", INCLUDED), folder, check=True)
        self.log = (folder.parent / f"{folder.name}.log").open("w+")
        command = ["systemd-nspawn", "--directory", folder, "--register=no", "--keep-unit", "--boot"]
        self.nspawn = subprocess.Popen(
            [*map(str, command), "--private-network", "--console=pipe", f"--machine=tollgate-{folder.name}"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )  # fmt: skip
        self.init = eventually("the boot", self.find_init)
        # `degraded` is enough: a unit of Debian may not start without a whole machine.
        eventually("the end of the boot", lambda: self.run("systemctl", "is-system-running").stdout.strip()
                   in ("running", "degraded"))  # fmt: skip

    def find_init(self) -> int | None:
        if self.nspawn.poll() is not None:
            self.log.seek(0)
            sys.exit(f"failed: systemd-nspawn ended with {self.nspawn.returncode}: {self.log.read()}")
        children = Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def run(self, *command) -> subprocess.CompletedProcess:
        return run("nsenter", "--target", self.init, "--all", *command)

    def output(self, *command) -> str:
        """Returns what a command prints, and fails if it does not end with 0."""
        done = self.run(*command)
        if done.returncode:
            log = self.run("journalctl", "-u", "tollgate", "-n", "20", "--no-pager", "-o", "cat").stdout
            sys.exit(f"failed: {' '.join(map(str, command))}: {done.stdout}{done.stderr}\n{log}")
        return done.stdout + done.stderr

    def write(self, path: str, text: str) -> None:
        (self.folder / path.lstrip("/")).write_text(text)

    def read(self, path: str) -> str:
        return (self.folder / path.lstrip("/")).read_text()

    def exists(self, path: str) -> bool:
        return (self.folder / path.lstrip("/")).exists()

    def close(self) -> None:
        if self.nspawn.poll() is None:
            # systemd-nspawn kills the processes of the machine when it ends.
            self.nspawn.terminate()
            self.nspawn.wait(timeout=PATIENCE)
        self.log.close()
