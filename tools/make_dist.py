#!/usr/bin/env python3
"""Makes the files of a release in target/dist: `tools/make_dist.py [--targets "TARGET ..."] [--binary PATH]`.

For each target: the stripped binary in an archive, a package of Debian, an RPM, an OCI image, an SBOM and the
licences of all crates. SHA256SUMS has their digests. `make build` builds the program, unless `--binary` names
one. The same binary and commit give the same bytes in each run.

`--pages-from` names a binary of this machine that prints the manual pages and completions. It is needed if
the target is for another processor. Targets:

    x86_64-unknown-linux-gnu    the libraries of this machine
    x86_64-unknown-linux-musl   a static binary, linked by zig
    aarch64-unknown-linux-gnu   glibc 2.28 or later, linked by zig

If a target needs something that is missing, the program names it, makes the other targets, and ends with 1.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packages import zig
from packages.deb import write_deb
from packages.image import write_image
from packages.inventory import crates, write_licences, write_sbom
from packages.release import ROOT, Release, fail, output, stage, version, write_archive
from packages.rpm import write_rpm

OUT = ROOT / "target/dist"
HERE = f"{platform.machine()}-unknown-linux-gnu"
#: A stripped binary that this script builds is smaller than this. The goal is 30,000,000.
BINARY_BYTES_MAX = 34_000_000
#: Programs that the script starts, with the package of Debian that has each of them.
TOOLS = {
    "dpkg-deb": "dpkg",
    "dpkg-shlibdeps": "dpkg-dev",
    "rpmbuild": "rpm",
    "strip": "binutils",
    "cargo": "rustup",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--targets", default=HERE)
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--pages-from", type=Path)
    parser.add_argument("--version", default=version(), help="another version, to try an upgrade")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


def check_tools() -> None:
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if missing:
        fail(f"programs are missing. Install the packages {' '.join(missing)}")


def build(target: str) -> Path:
    if target == HERE:
        subprocess.run(["make", "build"], cwd=ROOT, check=True)
        return ROOT / "target/release/tollgate"
    return zig.build(target)


def strip(binary: Path, target: str, to: Path, bytes_max: int | None) -> Path:
    """Copies the binary without symbols. The strip of binutils knows only the processor of this machine."""
    if target.split("-")[0] == platform.machine():
        output("strip", "--strip-all", "-o", to, binary)
    else:
        zig.strip(binary, to)
    to.chmod(0o755)
    size = to.stat().st_size
    if bytes_max and size >= bytes_max:
        fail(f"the stripped binary has {size} bytes, limit {bytes_max}. Optimise more crates for size")
    return to


def write_target(target: str, options: argparse.Namespace) -> list[Path]:
    with tempfile.TemporaryDirectory() as folder:
        # A program that the caller names may be a debug build, to try the packaging.
        bytes_max = None if options.binary else BINARY_BYTES_MAX
        binary = strip(options.binary or build(target), target, Path(folder, "tollgate"), bytes_max)
        seconds, commit = output("git", "log", "-1", "--format=%ct %H", cwd=ROOT).split()
        pages_from = (options.pages_from or binary).resolve()
        release = Release(options.version, target, binary, pages_from, int(seconds), commit)
        tree = Path(folder, "tree")
        stage(release, tree)
        found = crates(target)
        licences = write_licences(release, found, options.out)
        written = [
            licences,
            write_sbom(release, found, options.out),
            write_archive(release, tree, options.out),
        ]
        # A static binary belongs to no distribution. It is for the archive and the image.
        if not target.endswith("musl"):
            written += [writer(release, tree, licences, options.out) for writer in (write_deb, write_rpm)]
        return [*written, write_image(release, tree, licences, options.out)]


def write_sums(written: list[Path], out: Path) -> Path:
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(written)]
    path = out / "SHA256SUMS"
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> None:
    options = arguments()
    check_tools()
    # Modes of files in packages must not depend on the user who makes them.
    os.umask(0o022)
    options.out.mkdir(parents=True, exist_ok=True)
    written, faults = [], []
    for target in options.targets.split():
        missing = [] if target == HERE or options.binary else zig.missing(target)
        if missing:
            faults.append(f"{target}: missing is {'; '.join(missing)}")
        else:
            written += write_target(target, options)
    if written:
        written.append(write_sums(written, options.out))
    for path in written:
        print(f"{path.stat().st_size:>12,}  {path}")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
