"""The crates of a binary with their licences, as a CycloneDX document and as a text for people."""

import hashlib
import json
import re
import tomllib
import uuid
from pathlib import Path
from typing import NamedTuple

from packages.release import LICENSE, ROOT, Release, output

#: Files of a crate with texts that a copy of the program has to contain.
TEXTS = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.IGNORECASE)


class Crate(NamedTuple):
    name: str
    version: str
    license: str
    folder: Path
    sha256: str


def crates(target: str) -> list[Crate]:
    """Returns the crates that are linked into the program, without the crates of the workspace."""
    tree = output(
        "cargo", "tree", "--locked", "--package", "tollgate", "--target", target,
        "--edges", "normal,build", "--prefix", "none", "--format", "{p}", cwd=ROOT,
    )  # fmt: skip
    used = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(each["name"], each["version"]): each.get("checksum", "") for each in lock}
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", cwd=ROOT))
    found = [
        Crate(
            each["name"],
            each["version"],
            (each["license"] or "see its licence file").replace("/", " OR ").replace("  ", " "),
            Path(each["manifest_path"]).parent,
            sums.get((each["name"], each["version"]), ""),
        )
        for each in metadata["packages"]
        if each["source"] and (each["name"], "v" + each["version"]) in used
    ]
    return sorted(found)


def component(crate: Crate) -> dict:
    link = f"pkg:cargo/{crate.name}@{crate.version}"
    hashes = {"hashes": [{"alg": "SHA-256", "content": crate.sha256}]} if crate.sha256 else {}
    return {
        "type": "library",
        "bom-ref": link,
        "name": crate.name,
        "version": crate.version,
        "purl": link,
        "licenses": [{"expression": crate.license}],
        **hashes,
    }


def write_sbom(release: Release, found: list[Crate], out: Path) -> Path:
    """Writes a CycloneDX 1.5 document. Its serial number follows from its content."""
    program = {
        "type": "application",
        "bom-ref": "tollgate",
        "name": "tollgate",
        "version": release.version,
        "licenses": [{"expression": LICENSE}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(release.binary.read_bytes()).hexdigest()}],
    }
    components = [component(crate) for crate in found]
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


def texts_of(crate: Crate) -> list[str]:
    files = [path for path in crate.folder.iterdir() if path.is_file() and TEXTS.match(path.name)]
    return [path.read_text(errors="replace").strip() for path in sorted(files)]


def write_licences(release: Release, found: list[Crate], out: Path) -> Path:
    """Writes each crate with its licence, then each text once with the crates that it belongs to."""
    owners: dict[str, list[str]] = {}
    for crate in found:
        for text in texts_of(crate):
            owners.setdefault(text, []).append(f"{crate.name} {crate.version}")
    lines = [f"Tollgate {release.version} is licensed under {LICENSE}. It contains these crates:", ""]
    lines += [f"{crate.name} {crate.version}: {crate.license}" for crate in found]
    for text, names in owners.items():
        lines += ["", "=" * 80, f"The text for {', '.join(names)}:", "", text]
    path = out / f"tollgate-{release.version}-{release.target}.licences.txt"
    path.write_text("\n".join(lines) + "\n")
    return path
