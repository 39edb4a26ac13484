"""Builds the program for a target. zig from PyPI is the C and C++ compiler and the linker.

zig has the symbols of each version of glibc. A program that it links for glibc 2.28 runs with every later
version. It also has musl, and a C++ library that it links statically.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from packages.release import ROOT, output

VERSION = "0.17.1"
FOLDER = ROOT / "target/tools" / f"zig-{VERSION}"
ZIG = FOLDER / "ziglang/zig"
LIBRARIES = FOLDER / "ziglang/lib"


class Linked(NamedTuple):
    """How zig names a target, and the flags of rustc for it."""

    name: str
    rustflags: str = ""


TARGETS = {
    # rustc would start the linker lld by options of GCC, which zig does not know.
    "x86_64-unknown-linux-gnu": Linked("x86_64-linux-gnu.2.28", "-C linker-features=-lld"),
    # zig brings the start files and the libraries of musl and of C++, so rustc must not add its own.
    "x86_64-unknown-linux-musl": Linked(
        "x86_64-linux-musl", "-C link-self-contained=no -C target-feature=+crt-static"
    ),
    "aarch64-unknown-linux-gnu": Linked("aarch64-linux-gnu.2.28"),
    "aarch64-unknown-linux-musl": Linked(
        "aarch64-linux-musl", "-C link-self-contained=no -C target-feature=+crt-static"
    ),
}

#: The body of a program that starts zig as a compiler. cc adds the target in another form. zig has the
#: unwinder of LLVM in place of the one of GCC.
WRAPPER = """#!/bin/bash
arguments=()
for word; do
  case $word in
    --target=*) ;;
    -lgcc_s | -lgcc_eh) arguments+=(-lunwind) ;;
    *) arguments+=("$word") ;;
  esac
done
exec "{zig}" {command} "${{arguments[@]}}"
"""


def missing(target: str) -> list[str]:
    """Returns what a build for the target needs and this machine does not have."""
    if target not in TARGETS:
        return [f"a recipe, known are {', '.join(TARGETS)}"]
    sysroot = Path(output("rustc", "--print", "sysroot", cwd=ROOT).strip())
    found = []
    if not (sysroot / "lib/rustlib" / target).is_dir():
        found.append(f"the standard library of Rust (rustup target add {target})")
    if not ZIG.exists() and (fault := install()):
        found.append(f"zig ({fault})")
    return found


def install() -> str | None:
    """Installs zig from PyPI below target/, and returns why this failed."""
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--root-user-action=ignore", "--target", str(FOLDER), f"ziglang=={VERSION}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() or f"{' '.join(command)} failed" if done.returncode else None


def wrapper(name: str, command: str) -> Path:
    """Writes a program that starts zig as a compiler."""
    path = FOLDER / "wrappers" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(WRAPPER.format(zig=ZIG, command=command))
    path.chmod(0o755)
    return path


def build(target: str) -> Path:
    linked = TARGETS[target]
    compiler = wrapper(f"{target}-cc", f"cc -target {linked.name}")
    compiler_of_cxx = wrapper(f"{target}-c++", f"c++ -target {linked.name}")
    archiver = wrapper(f"{target}-ar", "ar")
    short = target.replace("-", "_")
    variables = {
        f"CC_{short}": compiler,
        f"CXX_{short}": compiler_of_cxx,
        f"AR_{short}": archiver,
        # zig links its own C++ library, by the name that this one has.
        f"CXXSTDLIB_{short}": "c++",
        f"CARGO_TARGET_{short.upper()}_LINKER": compiler_of_cxx,
        "RUSTFLAGS": linked.rustflags,
        # A library in C may contain the date of its build.
        "SOURCE_DATE_EPOCH": output("git", "log", "-1", "--format=%ct", cwd=ROOT).strip(),
    }
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    subprocess.run(["make", "build-dist", f"TARGET={target}"], cwd=ROOT, env=environment, check=True)
    return program(target)


def program(target: str) -> Path:
    """Returns where the program of a release is after its build."""
    return ROOT / "target" / target / "packaged/tollgate"


def strip(binary: Path, to: Path) -> None:
    output(ZIG, "objcopy", "--strip-all", binary, to)
