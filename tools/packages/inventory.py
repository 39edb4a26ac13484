"""What is linked into a binary, with its licences: as a CycloneDX document and as a text for people.

The list has the crates, the libraries in C and C++ that some crates contain, and the libraries that the
compilers add. Crates that only take part in the build, such as macros, are not in the binary and not in the
list.
"""

import hashlib
import json
import re
import tomllib
import uuid
from pathlib import Path
from typing import NamedTuple

from packages import elf, zig
from packages.release import LICENSE, ROOT, Release, fail, output

#: Files of a crate with texts that a copy of the program has to contain.
TEXTS = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.IGNORECASE)


class Part(NamedTuple):
    """A crate or another library. `texts` are its licences as they stand in its files."""

    name: str
    version: str
    license: str
    kind: str
    sha256: str
    texts: list[str]

    @property
    def link(self) -> str:
        return f"pkg:{self.kind}/{self.name}@{self.version}"


class Vendored(NamedTuple):
    """A library in C or C++ whose source a crate contains.

    `version` finds the version of the library in the file `stated_in`. Without such a file, it finds it in
    the version of the crate.
    """

    crate: str
    license: str
    text: str
    version: str
    stated_in: str | None = None


VENDORED = {
    "luau": Vendored("luau0-src", "MIT", "LICENSE", r"\+luau(\d+)"),
    "sqlite": Vendored(
        "libsqlite3-sys", "blessing", "sqlite3/sqlite3.h", r'SQLITE_VERSION +"([\d.]+)"', "sqlite3/sqlite3.h"
    ),
    "zstd": Vendored("zstd-sys", "BSD-3-Clause", "zstd/LICENSE", r"\+zstd\.([\d.]+)"),
    # Only a static program has this allocator.
    "mimalloc": Vendored(
        "libmimalloc-sys",
        "MIT",
        "c_src/mimalloc/v3/LICENSE",
        r"MI_MALLOC_VERSION +(\d+)",
        "c_src/mimalloc/v3/include/mimalloc.h",
    ),
}
#: SQLite has no file with its licence. Its header begins with the text.
BLESSING = re.compile(r"/\*(.*?)\*{3,}", re.DOTALL)
#: What zig links statically: the folder below its `lib`, the licence, and the file with the text.
OF_ZIG = {
    "libcxx": ("Apache-2.0 WITH LLVM-exception", "libcxx/LICENSE.TXT"),
    "libcxxabi": ("Apache-2.0 WITH LLVM-exception", "libcxxabi/LICENSE.TXT"),
    "libunwind": ("Apache-2.0 WITH LLVM-exception", "libunwind/LICENSE.TXT"),
}
MUSL = {"musl": ("MIT", "libc/musl/COPYRIGHT")}


def linked(target: str, binary: Path) -> list[Part]:
    """Returns all that the binary contains, without the crates of the workspace."""
    packages = known_packages()
    found = [*crates(target, packages), *vendored(target, packages), standard_library()]
    # A binary that loads the C++ library of GCC was not linked by zig.
    if "libstdc++" not in elf.libraries(binary):
        found += of_zig(target)
    return sorted(found)


def known_packages() -> list[dict]:
    """Returns what cargo knows of each crate of the lock file, with the folder of its source."""
    text = output("cargo", "metadata", "--locked", "--format-version", "1", cwd=ROOT)
    return json.loads(text)["packages"]


def crates(target: str, packages: list[dict]) -> list[Part]:
    tree = output(
        "cargo", "tree", "--locked", "--package", "tollgate", "--target", target,
        "--edges", "no-proc-macro,no-build,no-dev", "--prefix", "none", "--format", "{p}", cwd=ROOT,
    )  # fmt: skip
    used = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(each["name"], each["version"]): each.get("checksum", "") for each in lock}
    return [
        Part(
            each["name"],
            each["version"],
            (each["license"] or "see its licence file").replace("/", " OR ").replace("  ", " "),
            "cargo",
            sums.get((each["name"], each["version"]), ""),
            texts_of_crate(each, packages),
        )
        for each in packages
        if each["source"] and (each["name"], "v" + each["version"]) in used
    ]


def vendored(target: str, packages: list[dict]) -> list[Part]:
    """Returns the libraries in C and C++. Some of their crates are only needed to build another crate."""
    tree = output(
        "cargo", "tree", "--locked", "--package", "tollgate", "--target", target,
        "--edges", "normal,build", "--prefix", "none", "--format", "{p}", cwd=ROOT,
    )  # fmt: skip
    used = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    by_name = {each["name"]: each for each in packages if (each["name"], "v" + each["version"]) in used}
    return [
        vendored_part(name, library, by_name[library.crate])
        for name, library in VENDORED.items()
        if library.crate in by_name
    ]


def vendored_part(name: str, library: Vendored, crate: dict) -> Part:
    folder = Path(crate["manifest_path"]).parent
    stated = (folder / library.stated_in).read_text() if library.stated_in else crate["version"]
    text = (folder / library.text).read_text()
    if library.license == "blessing":
        text = BLESSING.search(text)[1]
    return Part(name, re.search(library.version, stated)[1], library.license, "generic", "", [text.strip()])


def standard_library() -> Part:
    release = re.search(
        r"^release: (\S+)", output("rustc", "--version", "--verbose", cwd=ROOT), re.MULTILINE
    )[1]
    text = (ROOT / "LICENSE-APACHE").read_text().strip()
    return Part("rust-std", release, LICENSE, "generic", "", [text])


def of_zig(target: str) -> list[Part]:
    """Returns the libraries that zig links statically."""
    libraries = OF_ZIG | (MUSL if target.endswith("musl") else {})
    return [
        Part(name, f"zig-{zig.VERSION}", licence, "generic", "", [(zig.LIBRARIES / path).read_text().strip()])
        for name, (licence, path) in libraries.items()
    ]


def component(part: Part) -> dict:
    hashes = {"hashes": [{"alg": "SHA-256", "content": part.sha256}]} if part.sha256 else {}
    return {
        "type": "library",
        "bom-ref": part.link,
        "name": part.name,
        "version": part.version,
        "purl": part.link,
        "licenses": [{"expression": part.license}],
        **hashes,
    }


def write_sbom(release: Release, found: list[Part], out: Path) -> Path:
    """Writes a CycloneDX 1.5 document. Its serial number follows from its content."""
    program = {
        "type": "application",
        "bom-ref": "tollgate",
        "name": "tollgate",
        "version": release.version,
        "licenses": [{"expression": LICENSE}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(release.binary.read_bytes()).hexdigest()}],
    }
    components = [component(part) for part in found]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([program, components], sort_keys=True))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": program},
        "components": components,
        "dependencies": [{"ref": "tollgate", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    path = out / f"tollgate-{release.version}-{release.target}.cdx.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def texts_of_crate(crate: dict, packages: list[dict]) -> list[str]:
    """Returns the texts of a crate, else the texts of its repository, else the terms with its authors."""
    siblings = [each for each in packages if each["repository"] and each["repository"] == crate["repository"]]
    for each in [crate, *siblings]:
        if texts := texts_of(Path(each["manifest_path"]).parent):
            return texts
    if crate["license"] != "MIT":
        fail(f"{crate['name']} has no file with its licence {crate['license']}")
    own = next(line for line in (ROOT / "LICENSE-MIT").read_text().splitlines() if "Copyright" in line)
    authors = ", ".join(crate["authors"]) or f"the authors of {crate['repository']}"
    return [(ROOT / "LICENSE-MIT").read_text().replace(own, f"Copyright (c) {authors}").strip()]


def texts_of(folder: Path) -> list[str]:
    files = [path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name)]
    return [path.read_text(errors="replace").strip() for path in sorted(files)]


def write_licences(release: Release, found: list[Part], out: Path) -> Path:
    """Writes each part with its licence, then each text once with the parts that it belongs to."""
    owners: dict[str, list[str]] = {}
    for part in found:
        for text in part.texts:
            owners.setdefault(text, []).append(f"{part.name} {part.version}")
    lines = [f"Tollgate {release.version} is licensed under {LICENSE}. It contains these libraries:", ""]
    lines += [f"{part.name} {part.version}: {part.license}" for part in found]
    for text, names in owners.items():
        lines += ["", "=" * 80, f"The text for {', '.join(names)}:", "", text]
    path = out / f"tollgate-{release.version}-{release.target}.licences.txt"
    path.write_text("\n".join(lines) + "\n")
    return path
