#!/usr/bin/env python3
"""Tries the files of `make dist`, as root: `tests/packages/run.py [--dist FOLDER] [--next FOLDER]`.

Installs the deb into a new Debian 12 whose systemd runs, and sends requests. Then upgrades, removes and
purges it. Unpacks the archives and the image, and runs their server. Runs the archives also in Debian 11.
`--next` has the deb of a later version. `--here` leaves out Debian 11, for a program that needs the glibc of
this machine.
"""

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from machine import ROOT, Machine, eventually, make_base, run

CONFIGURATION = "/etc/tollgate/tollgate.toml"
STATE = "/var/lib/tollgate"
DATABASE = f"{STATE}/tollgate.sqlite"
URL = "http://127.0.0.1:8080/score?x=20"
REPLY = '{"score":41}'
#: From the command of the installation to the row.
ROW_WITHIN_S = 60
#: The oldest release of Debian that the mirrors have.
OLD = "bullseye"
#: CAP_NET_BIND_SERVICE is the only capability of the unit.
CAPABILITIES = f"{1 << 10:016x}"
#: Files for a person at a shell.
PAGES = (
    "/usr/share/man/man1/tollgate.1.gz",
    "/usr/share/man/man1/tollgate-serve.1.gz",
    "/usr/share/zsh/vendor-completions/_tollgate",
    "/usr/share/fish/vendor_completions.d/tollgate.fish",
)
#: The administrator adds these lines before the upgrade. The server opens files by openat2, which some
#: sandboxes forbid.
OWN_LINES = """
[[route]]
path  = "/documents/*"
files = "/usr/share/doc/tollgate"
"""


def expect(is_true: bool, text: str) -> None:
    if not is_true:
        sys.exit(f"failed: {text}")


def step(text: str) -> None:
    print(f"ok: {text}", flush=True)


def only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    expect(len(found) == 1, f"{folder} has {len(found)} files {pattern}, expected is one")
    return found[0]


def score(machine: Machine) -> None:
    expect(machine.output("curl", "-sS", "--fail", URL) == REPLY, "the reply is not the score")


def rows(machine: Machine) -> int:
    done = machine.run("sqlite3", "-readonly", DATABASE, "SELECT count(*) FROM scores")
    return int(done.stdout) if done.returncode == 0 else 0


def unit(machine: Machine, field: str, name: str = "tollgate.service") -> str:
    return machine.output("systemctl", "show", "--property", field, "--value", name).strip()


def install(machine: Machine, deb: Path, *options: str) -> str:
    shutil.copy(deb, machine.folder / "srv")
    path = f"/srv/{deb.name}"
    return machine.output(
        "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", *options, path
    )


def check_first_row(machine: Machine, deb: Path) -> None:
    begun = time.monotonic()
    install(machine, deb)
    expect(unit(machine, "ActiveState") == "active", "the unit does not run after the installation")
    expect(unit(machine, "UnitFileState") == "enabled", "the unit is not enabled")
    expect(unit(machine, "UnitFileState", "tollgate.socket") == "disabled", "the socket is enabled")
    score(machine)
    eventually("the first row", lambda: rows(machine) == 1, ROW_WITHIN_S - (time.monotonic() - begun))
    step(f"apt install, start of the unit, reply, row in SQLite: {time.monotonic() - begun:.1f} s")


def check_sandbox(machine: Machine) -> None:
    """Reads the rights of the running server from the kernel."""
    status = machine.output("cat", f"/proc/{unit(machine, 'MainPID')}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    user = machine.output("id", "-u", "tollgate").strip()
    expect(fields["Uid"].split() == [user] * 4, f"the server runs as {fields['Uid']}")
    expect(fields["CapBnd"] == CAPABILITIES, f"the server has the capabilities {fields['CapBnd']}")
    expect(fields["NoNewPrivs"] == "1", "the server may get new rights")
    before = int(machine.output("grep", "-oP", r"Seccomp_filters:\s*\K\d+", "/proc/1/status"))
    expect(int(fields["Seccomp_filters"]) > before, "the filters of system calls of the unit are not active")
    machine.output("systemctl", "reload", "tollgate")
    step("user, capabilities, filters of system calls, reload")


def check_tools(machine: Machine) -> None:
    expect("ALL WELL" in machine.output("tollgate", "status", CONFIGURATION), "status is not ALL WELL")
    machine.output("tollgate", "check", CONFIGURATION)
    units = [f"/lib/systemd/system/tollgate.{kind}" for kind in ("service", "socket")]
    expect(
        machine.output("systemd-analyze", "verify", *units) == "", "systemd-analyze finds faults of the units"
    )
    # The threshold is ten times the exposure, which has to be 2.0 or less.
    machine.output("systemd-analyze", "security", "--offline=true", "--threshold=20", units[0])
    machine.output(
        "bash", "-c", "source /usr/share/bash-completion/completions/tollgate && complete -p tollgate"
    )
    for path in PAGES:
        expect(machine.exists(path), f"the package has no {path}")
    step("status, check, systemd-analyze verify and security, completions, manual pages")


def check_upgrade(machine: Machine, deb: Path) -> None:
    changed = machine.read(CONFIGURATION) + OWN_LINES
    machine.write(CONFIGURATION, changed)
    process = unit(machine, "MainPID")
    install(machine, deb)
    expect(machine.read(CONFIGURATION) == changed, "the upgrade changed the configuration")
    expect(unit(machine, "MainPID") != process, "the upgrade did not restart the server")
    score(machine)
    machine.output("curl", "-sS", "--fail", "http://127.0.0.1:8080/documents/README.md")
    eventually("the row after the upgrade", lambda: rows(machine) == 2)
    machine.output("tollgate", "audit", "--config", CONFIGURATION)
    step("upgrade: the configuration and the rows are kept, the audit is exact, static files")


def check_quiet_install(machine: Machine, deb: Path) -> None:
    """Installs the package as docs/how-to/upgrade.md says. The running process stays."""
    policy, process = "/usr/sbin/policy-rc.d", unit(machine, "MainPID")
    machine.write(policy, "#!/bin/sh\nexit 101\n")
    machine.output("chmod", "755", policy)
    install(machine, deb, "--reinstall")
    machine.output("rm", policy)
    expect(unit(machine, "MainPID") == process, "the installation restarted the server")
    step("installation without a restart by policy-rc.d")


def check_live_upgrade(machine: Machine, *order: str) -> None:
    """Replaces the process of the running unit. systemd follows the new process, and restarts nothing."""
    process, since = unit(machine, "MainPID"), unit(machine, "ActiveEnterTimestampMonotonic")
    before = rows(machine)
    machine.output(*order)
    eventually("the new main process", lambda: unit(machine, "MainPID") not in (process, "0"))
    eventually("the end of the old process", lambda: machine.run("kill", "-0", process).returncode != 0)
    expect(unit(machine, "ActiveState") == "active", "the unit does not run after the upgrade of the process")
    expect(unit(machine, "ActiveEnterTimestampMonotonic") == since, "systemd started the unit again")
    score(machine)
    eventually("the row after the upgrade of the process", lambda: rows(machine) == before + 1)
    machine.output("tollgate", "audit", "--config", CONFIGURATION)
    step(f"upgrade of the process by {order[0]}: same unit, new main process, row, audit")


def check_socket(machine: Machine) -> None:
    """Connections wait in the socket of systemd while the server restarts."""
    own = machine.read(CONFIGURATION)
    machine.write(CONFIGURATION, own.replace('["127.0.0.1:8080"]', '["systemd:web"]'))
    machine.output("systemctl", "stop", "tollgate.service")
    machine.output("systemctl", "enable", "--now", "tollgate.socket")
    machine.output("systemctl", "start", "tollgate.service")
    restart = subprocess.Popen(
        ["nsenter", "--target", str(machine.init), "--all", "systemctl", "restart", "tollgate"]
    )
    count = 0
    while restart.poll() is None or count == 0:
        score(machine)
        count += 1
    expect(restart.returncode == 0, "the restart failed")
    machine.output("systemctl", "disable", "--now", "tollgate.socket")
    machine.write(CONFIGURATION, own)
    machine.output("systemctl", "restart", "tollgate.service")
    score(machine)
    step(f"socket of systemd: {count} new connections during a restart, none was refused")


def check_end(machine: Machine, deb: Path) -> None:
    kept = rows(machine)
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes"]
    machine.output(*apt, "remove", "tollgate")
    expect(machine.run("curl", "-sS", URL).returncode != 0, "a server runs after remove")
    expect(machine.exists(CONFIGURATION), "remove deleted the configuration")
    text = machine.output(*apt, "purge", "tollgate")
    expect(f"kept {STATE}" in text, f"purge does not name the folder that it keeps: {text}")
    expect(not machine.exists("/etc/tollgate"), "purge kept the configuration")
    expect(
        not machine.exists("/etc/systemd/system/multi-user.target.wants/tollgate.service"),
        "the unit is enabled",
    )
    expect(bool(list((machine.folder / STATE.lstrip("/") / "log").iterdir())), "purge deleted the log")
    install(machine, deb)
    score(machine)
    eventually("the rows after a new installation", lambda: rows(machine) == kept + 1)
    step("remove, purge, new installation: log and rows are kept")


def check_archive(machine: Machine, archive: Path) -> None:
    """Follows docs/how-to/install.md for systems without a package."""
    machine.output("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "purge", "tollgate")
    shutil.rmtree(machine.folder / STATE.lstrip("/"))
    machine.output("deluser", "--quiet", "--system", "tollgate")
    shutil.copy(archive, machine.folder / "srv")
    unpack = ["tar", "-xzf", f"/srv/{archive.name}", "-C", "/", "--strip-components=1", "--no-same-owner"]
    machine.output(*unpack, "--skip-old-files", "--keep-directory-symlink")
    machine.output("systemd-sysusers")
    machine.output("systemctl", "daemon-reload")
    machine.output("systemctl", "enable", "--now", "tollgate.service")
    score(machine)
    eventually("the row of the archive", lambda: rows(machine) == 1)
    process = unit(machine, "MainPID")
    machine.output(*unpack, "--keep-directory-symlink", f"{archive.name.removesuffix('.tar.gz')}/usr")
    machine.output("systemctl", "restart", "tollgate.service")
    expect(unit(machine, "MainPID") != process, "the server did not restart with the binary of the archive")
    score(machine)
    step("archive: user by systemd-sysusers, unit, reply, row, upgrade")


@contextlib.contextmanager
def served_in(root: Path, user: str, *command: str):
    """Runs a server in a folder as in a chroot, with a network of its own. Yields the words that enter it."""
    inside = (
        f'mount -t proc proc {root}/proc && ip link set lo up && exec chroot --userspec={user} {root} "$@"'
    )
    start = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, "sh"]
    log = (root.parent / "server.log").open("w+")
    server = subprocess.Popen([*start, *command], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        eventually(f"the start in {root}", lambda: "serving" in server.stdout.readline())
        (child,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        yield ["nsenter", "--target", child, "--net", "--mount", "--pid"]
    finally:
        server.kill()
        server.wait()
        log.close()


def check_row_in(root: Path, within: list[str]) -> None:
    expect(run(*within, "curl", "-sS", URL).stdout == REPLY, f"the reply in {root} is not the score")
    query = ["sqlite3", "-readonly", root / DATABASE.lstrip("/"), "SELECT count(*) FROM scores"]
    eventually(f"the row in {root}", lambda: run(*query).stdout == "1\n")


def check_image(image: Path, folder: Path) -> None:
    """Unpacks the image by umoci, and runs its command in a chroot as its user."""
    layout, bundle = folder / "layout", folder / "bundle"
    layout.mkdir()
    run("tar", "-xf", image, "-C", layout, check=True)
    (tag,) = run("umoci", "ls", "--layout", layout, check=True).stdout.split()
    run("umoci", "unpack", "--image", f"{layout}:{tag}", bundle, check=True)
    process, root = json.loads((bundle / "config.json").read_text())["process"], bundle / "rootfs"
    user = f"{process['user']['uid']}:{process['user']['gid']}"
    with served_in(root, user, *process["args"]) as within:
        check_row_in(root, within)
        done = run(*within, "chroot", "--userspec", user, root, *healthcheck())
        expect(done.returncode == 0 and "ALL WELL" in done.stdout, f"the health check: {done.stdout}")
    libraries = [path for path in root.rglob("*") if re.search(r"\.so(\.\d+)*$", path.name)]
    step(f"image: unpacked by umoci, reply, row, health check of compose. It has {len(libraries)} libraries")


def healthcheck() -> list[str]:
    """Returns the command by which compose asks for the health of the server."""
    services = yaml.safe_load((ROOT / "dist/compose/compose.yaml").read_text())["services"]
    kind, *command = services["tollgate"]["healthcheck"]["test"]
    expect(kind == "CMD", f"the health check of compose is of the kind {kind}")
    return command


def check_old(archive: Path, folder: Path) -> None:
    """Runs the program of an archive in Debian 11, whose glibc is 2.31."""
    root = folder / "old"
    run("cp", "--archive", make_base(OLD), root, check=True)
    run("tar", "-xzf", archive, "-C", root, "--strip-components=1", "--keep-directory-symlink", check=True)
    (root / STATE.lstrip("/")).mkdir()
    with served_in(root, "0:0", "/usr/bin/tollgate", "serve", CONFIGURATION) as within:
        check_row_in(root, within)
    step(f"{archive.name} in Debian {OLD}: reply, row")


def check_lintian(deb: Path) -> None:
    done = run("lintian", "--allow-root", "--fail-on", "error,warning", deb)
    expect(done.returncode == 0, f"lintian: {done.stdout}{done.stderr}")
    step("lintian has no errors and no warnings")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "target/dist")
    parser.add_argument("--next", type=Path, default=ROOT / "target/dist-test/next")
    parser.add_argument("--here", action="store_true")
    options = parser.parse_args()
    first, later = only(options.dist, "*.deb"), only(options.next, "*.deb")
    check_lintian(first)
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        check_image(only(options.dist, "*.oci.tar"), Path(folder))
        for archive in sorted(options.dist.glob("*-linux-*.tar.gz")):
            if not options.here:
                check_old(archive, Path(tempfile.mkdtemp(dir=folder)))
        machine = Machine(Path(folder, "machine"))
        try:
            check_first_row(machine, first)
            check_sandbox(machine)
            check_tools(machine)
            check_upgrade(machine, later)
            check_live_upgrade(
                machine, "systemctl", "kill", "--kill-whom=main", "--signal=USR2", "tollgate.service"
            )
            check_quiet_install(machine, later)
            check_live_upgrade(
                machine,
                "runuser",
                "-u",
                "tollgate",
                "--",
                "tollgate",
                "upgrade",
                "/usr/bin/tollgate",
                CONFIGURATION,
            )
            check_socket(machine)
            check_end(machine, later)
            check_archive(machine, only(options.dist, "*-gnu.tar.gz"))
        finally:
            machine.close()


if __name__ == "__main__":
    main()
