#!/usr/bin/env python3
"""Makes the files of a release in target/dist: `tools/make_dist.py [--targets "TARGET ..."] [--binary PATH]`.

For each target: the stripped binary in an archive, a package of Debian, an RPM, an SBOM, and the licences of
all that is linked. For each processor: an OCI image. SHA256SUMS has their digests. The same commit gives the
same bytes in each run and in each folder.

zig from PyPI links each binary, and is installed if it is missing. `--binary` names a program that is built
already. `--pages-from` names a binary of this machine that prints the manual pages and completions. It is
needed if the target is for another processor. Targets:

    x86_64-unknown-linux-gnu     glibc 2.28 or later
    x86_64-unknown-linux-musl    a static binary, for the archive and the image
    aarch64-unknown-linux-gnu    as for x86-64
    aarch64-unknown-linux-musl   as for x86-64

If a target needs something that is missing, the program names it, makes the other targets, and ends with 1.
"""

import argparse
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from packages import elf, zig
from packages.deb import write_deb
from packages.image import write_image
from packages.inventory import linked, write_licences, write_sbom
from packages.release import ROOT, Release, fail, output, stage, version, write_archive
from packages.rpm import write_rpm

OUT = ROOT / "target/dist"
HERE = f"{platform.machine()}-unknown-linux-gnu"
STATIC = f"{platform.machine()}-unknown-linux-musl"
#: A stripped binary that this script builds is smaller than this.
BINARY_BYTES_MAX = 28_000_000
#: A binary that this script builds runs with this version of glibc, which RHEL 8 and Debian 10 have.
GLIBC_MAX = (2, 28)
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
    parser.add_argument("--targets", help=f"{HERE} {STATIC}, or {HERE} with --binary, if not given")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--pages-from", type=Path)
    parser.add_argument("--version", default=version(), help="another version, to try an upgrade")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


def check_tools() -> None:
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if missing:
        fail(f"programs are missing. Install the packages {' '.join(missing)}")


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


def targets_of(options: argparse.Namespace) -> list[str]:
    """Returns the targets. A program that is built already is for this machine."""
    default = HERE if options.binary else f"{HERE} {STATIC}"
    return (options.targets or default).split()


def targets_of_images(targets: list[str]) -> set[str]:
    """Returns one target for each processor: the image has the static binary, if there is one."""
    processors = {}
    for target in sorted(targets, key=is_static):
        processors[target.split("-")[0]] = target
    return set(processors.values())


def is_static(target: str) -> bool:
    return target.endswith("musl")


def build(target: str) -> Path:
    binary = zig.build(target)
    found = elf.glibc(binary)
    if found and found > GLIBC_MAX:
        fail(f"{binary} needs glibc {found}, limit {GLIBC_MAX}")
    return binary


def write_target(target: str, options: argparse.Namespace, has_image: bool) -> list[Path]:
    with tempfile.TemporaryDirectory() as folder:
        # A program that the caller names may be a debug build, to try the packaging.
        bytes_max = None if options.binary else BINARY_BYTES_MAX
        binary = strip(options.binary or build(target), target, Path(folder, "tollgate"), bytes_max)
        seconds, commit = output("git", "log", "-1", "--format=%ct %H", cwd=ROOT).split()
        pages_from = (options.pages_from or binary).resolve()
        release = Release(options.version, target, binary, pages_from, int(seconds), commit)
        tree = Path(folder, "tree")
        stage(release, tree)
        found = linked(target, binary)
        licences = write_licences(release, found, options.out)
        written = [
            licences,
            write_sbom(release, found, options.out),
            write_archive(release, tree, options.out),
        ]
        # A static binary belongs to no distribution. It is for the archive and the image.
        if not is_static(target):
            written += [writer(release, tree, licences, options.out) for writer in (write_deb, write_rpm)]
        if has_image:
            written.append(write_image(release, tree, licences, options.out))
        return written


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
    missing = {target: [] if options.binary else zig.missing(target) for target in targets_of(options)}
    faults = [f"{target}: missing is {'; '.join(each)}" for target, each in missing.items() if each]
    targets = [target for target, each in missing.items() if not each]
    with_image = targets_of_images(targets)
    written = []
    for target in targets:
        written += write_target(target, options, target in with_image)
    if written:
        written.append(write_sums(written, options.out))
    for path in written:
        print(f"{path.stat().st_size:>12,}  {path}")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
