"""What a binary needs of the system that runs it, by readelf."""

import re
from pathlib import Path

from packages.release import output

NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")
VERSION = re.compile(r"GLIBC_(\d+)\.(\d+)")
#: The libraries of glibc, by the first part of their names.
PARTS_OF_GLIBC = {"libc", "libm", "libdl", "libpthread", "librt", "ld-linux-x86-64", "ld-linux-aarch64"}


def libraries(binary: Path) -> set[str]:
    """Returns the libraries that a binary loads, without numbers: `libc`, `libstdc++`."""
    return {name.split(".so")[0] for name in NEEDED.findall(output("readelf", "--dynamic", binary))}


def glibc(binary: Path) -> tuple[int, int] | None:
    """Returns the oldest version of glibc with all symbols of a binary. A static one needs none."""
    found = VERSION.findall(output("readelf", "--version-info", binary))
    return max(((int(major), int(minor)) for major, minor in found), default=None)
