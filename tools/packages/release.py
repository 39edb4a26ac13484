"""What the parts of `make dist` share: the facts of a release, and archives that are equal in each run."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SUMMARY = "HTTP server for write-heavy services"
DESCRIPTION = (
    "A script computes the reply. The record of the request is on disk before\n"
    "the client gets the reply. Each record then becomes a row of SQLite or\n"
    "PostgreSQL exactly once."
)
LICENSE = "MIT OR Apache-2.0"
#: Names of one processor: in a target of Rust, in Debian and in images, and in RPM.
PROCESSORS = {"x86_64": ("amd64", "x86_64"), "aarch64": ("arm64", "aarch64")}


@dataclass(frozen=True)
class Release:
    """One version for one target. `seconds` is the date of each file: the date of the commit."""

    version: str
    target: str
    binary: Path
    pages_from: Path
    seconds: int
    commit: str

    @property
    def debian(self) -> str:
        return PROCESSORS[self.target.split("-")[0]][0]

    @property
    def rpm(self) -> str:
        return PROCESSORS[self.target.split("-")[0]][1]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SOURCE_DATE_EPOCH": str(self.seconds), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def fail(text: str):
    sys.exit(f"make dist: {text}")


def output(*command, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def package(root: Path = ROOT) -> dict:
    """Returns what Cargo.toml says of all crates."""
    return tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]


def version(root: Path = ROOT) -> str:
    return package(root)["version"]


def maintainer(root: Path = ROOT) -> str:
    """Returns the first author, as `Name <address>`."""
    return package(root)["authors"][0]


def stage(release: Release, destination: Path) -> None:
    """Installs the release below `destination`, as `make install PREFIX=/usr` does."""
    variables = {"DESTDIR": str(destination), "PREFIX": "/usr", "PAGES_FROM": str(release.pages_from)}
    output(ROOT / "dist/install.sh", release.binary, env=release.environment | variables)


def entry(
    name: str, mode: int, seconds: int, kind: bytes = tarfile.REGTYPE, owner: int = 0
) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.mode, found.mtime, found.type, found.uid, found.gid = mode, seconds, kind, owner, owner
    return found


def add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int, seconds: int) -> None:
    header = entry(name, mode, seconds)
    header.size = len(content)
    archive.addfile(header, io.BytesIO(content))


def add_tree(archive: tarfile.TarFile, folder: Path, prefix: str, seconds: int) -> None:
    """Adds files and folders in the order of their names. All belong to root and have the same date."""
    for path in sorted(folder.rglob("*")):
        name = prefix + path.relative_to(folder).as_posix()
        if path.is_symlink():
            header = entry(name, 0o777, seconds, tarfile.SYMTYPE)
            header.linkname = os.readlink(path)
            archive.addfile(header)
        elif path.is_dir():
            archive.addfile(entry(name, 0o755, seconds, tarfile.DIRTYPE))
        else:
            add_file(archive, name, path.read_bytes(), path.stat().st_mode & 0o755, seconds)


def packed(content: bytes) -> bytes:
    """Compresses by gzip, without a date and a name."""
    return gzip.compress(content, 9, mtime=0)


def packed_tree(tree: Path, name: str, seconds: int) -> bytes:
    """Returns an archive with the files of `tree` in a folder `name`."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(entry(name, 0o755, seconds, tarfile.DIRTYPE))
        add_tree(archive, tree, f"{name}/", seconds)
    return packed(content.getvalue())


def write_archive(release: Release, tree: Path, out: Path) -> Path:
    name = f"tollgate-{release.version}-{release.target}"
    path = out / f"{name}.tar.gz"
    path.write_bytes(packed_tree(tree, name, release.seconds))
    return path
