"""Builds for targets that are not this machine's. zig from PyPI is the C and C++ compiler and the linker."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from packages.release import ROOT, output

VERSION = "0.17.1"
FOLDER = ROOT / "target/tools" / f"zig-{VERSION}"
ZIG = FOLDER / "ziglang/zig"


class Linked(NamedTuple):
    """How zig names a target, and the flags of rustc for it."""

    name: str
    rustflags: str


TARGETS = {
    # zig brings the start files and the libraries of musl and of C++, so rustc must not add its own.
    "x86_64-unknown-linux-musl": Linked(
        "x86_64-linux-musl", "-C link-self-contained=no -C target-feature=+crt-static"
    ),
    "aarch64-unknown-linux-gnu": Linked("aarch64-linux-gnu.2.28", ""),
}


def missing(target: str) -> list[str]:
    """Returns what a build for the target needs and this machine does not have."""
    if target not in TARGETS:
        return [f"a recipe, known are {', '.join(TARGETS)}"]
    sysroot = Path(output("rustc", "--print", "sysroot", cwd=ROOT).strip())
    found = []
    if not (sysroot / "lib/rustlib" / target).is_dir():
        found.append(f"the standard library of Rust (rustup target add {target})")
    if not ZIG.exists():
        found.append(f"zig (python3 -m pip install --target {FOLDER.relative_to(ROOT)} ziglang=={VERSION})")
    return found


def wrapper(name: str, command: str) -> Path:
    """Writes a program that starts zig as a compiler, without the target that cc adds in another form."""
    path = FOLDER / "wrappers" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "#!/bin/bash\n"
        "arguments=()\n"
        'for word; do case $word in --target=*) ;; *) arguments+=("$word") ;; esac; done\n'
        f'exec "{ZIG}" {command} "${{arguments[@]}}"\n'
    )
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
        f"CARGO_TARGET_{short.upper()}_RUSTFLAGS": linked.rustflags,
    }
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    command = ["cargo", "build", "--release", "--locked", "--package", "tollgate", "--target", target]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return ROOT / "target" / target / "release/tollgate"


def strip(binary: Path, to: Path) -> None:
    output(ZIG, "objcopy", "--strip-all", binary, to)
