"""Installs what a sender needs: packages of PyPI, npm, the Go module proxy and Debian.

The files of a sender name its packages: `requirements.txt`, `package.json` with `package-lock.json`,
`go.mod`, and `packages.txt` for Debian. Each sender has a folder below target/senders with its packages and a
copy of these files. A sender whose files are the same as the copy is not installed again.
"""

import functools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
#: The folder of installed packages.
INSTALLED = ROOT / "target" / "senders"
#: The files that name packages.
NAMED_BY = ("requirements.txt", "package.json", "package-lock.json", "go.mod", "go.sum", "packages.txt")


class NotInstalled(Exception):
    """A sender whose packages cannot be installed, with the reason."""


def run(*command, **options):
    """Runs a command. Its failure is the reason why a sender is not installed."""
    try:
        code = subprocess.run(command, check=False, **options).returncode
    except OSError as fault:
        code = fault
    if code != 0:
        raise NotInstalled(f"not installed: `{shlex.join(map(str, command))}` failed: {code}")


def folder_of(sender: Path) -> Path:
    """Returns the folder of the packages of a sender."""
    return INSTALLED / sender.name


def is_installed(sender: Path) -> bool:
    """Returns whether the packages that a sender names now are installed."""
    stamps = folder_of(sender) / "stamps"
    named = {name for name in NAMED_BY if (sender / name).is_file()}
    # Packages of Debian belong to the machine, which may be another one than the machine of the stamps.
    return (
        stamps.is_dir()
        and named == {path.name for path in stamps.iterdir()}
        and all((stamps / name).read_bytes() == (sender / name).read_bytes() for name in named)
        and not missing_packages(sender)
    )


def install(sender: Path) -> Path:
    """Installs the packages of a sender unless they are installed, and returns their folder."""
    folder = folder_of(sender)
    if is_installed(sender):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "stamps").mkdir(parents=True)
    try:
        for name, installer in INSTALLERS.items():
            if (sender / name).is_file():
                installer(sender, folder)
    except NotInstalled:
        shutil.rmtree(folder)
        raise
    for name in NAMED_BY:
        if (sender / name).is_file():
            shutil.copy(sender / name, folder / "stamps")
    return folder


def install_python(sender: Path, folder: Path):
    options = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--target",
        folder / "python",
        "-r",
        sender / "requirements.txt",
    )


def install_node(sender: Path, folder: Path):
    for name in ("package.json", "package-lock.json"):
        shutil.copy(sender / name, folder)
    node = Path(tool("node"))
    npm = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    run(node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)


def install_go(sender: Path, folder: Path):
    run(tool("go"), "build", "-o", folder / "send", ".", cwd=sender)


def install_debian(sender: Path, _: Path):
    """Installs packages of Debian, as root. Refuses if another package would be removed for them."""
    missing = missing_packages(sender)
    if missing:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        run("apt-get", "-qq", "update")
        run("apt-get", "-qq", "install", "--no-remove", "--no-install-recommends", *missing, env=environment)


INSTALLERS = {
    "packages.txt": install_debian,
    "requirements.txt": install_python,
    "package.json": install_node,
    "go.mod": install_go,
}


def missing_packages(sender: Path) -> list[str]:
    """Returns the packages of Debian that a sender needs and that are absent."""
    names = sender / "packages.txt"
    if not names.is_file():
        return []
    command = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}"]

    def is_present(name: str) -> bool:
        found = subprocess.run([*command, name], capture_output=True, text=True, check=False)
        return found.stdout == "installed"

    return [name for name in names.read_text().split() if not is_present(name)]


@functools.cache
def tool(name: str) -> str:
    """Returns the path of `node` or `go`. The Makefile installs it if it is missing."""
    found = subprocess.run(
        ["make", "--silent", name], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if found.returncode != 0:
        raise NotInstalled(f"make {name} failed with {found.returncode}")
    return found.stdout.split()[-1]
