"""The OCI image, as an archive that podman, Docker, skopeo and containerd load. No daemon makes it.

Its only layer has the program, the libraries that it loads, the public certificates and the first
configuration. It has no shell.
"""

import hashlib
import io
import json
import re
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from packages.release import LICENSE, Release, add_file, entry, fail, output, packed

#: The user of the server. Its number is the usual one of a user without rights in images.
USER = 65532
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MEDIA = "application/vnd.oci.image"


def libraries(binary: Path) -> list[Path]:
    """Returns the libraries of this machine that a binary loads, with the loader. A static one has none."""
    if "INTERP" not in output("readelf", "--program-headers", binary):
        return []
    found = output("ldd", binary)
    if "not found" in found:
        fail(f"a library of {binary} is missing on this machine: {found}")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", found)]


def configuration(staged: Path) -> bytes:
    """Returns the first configuration, which listens on all addresses, so that the port can be mapped."""
    text = (staged / "etc/tollgate/tollgate.toml").read_text()
    changed = text.replace('["127.0.0.1:8080"]', '["0.0.0.0:8080"]').replace(
        " on 127.0.0.1:8080.", " on port 8080."
    )
    assert changed != text, "the first configuration listens on another address"
    return changed.encode()


def layer(release: Release, staged: Path, licences: Path) -> bytes:
    files = {
        "etc/passwd": (
            f"tollgate:x:{USER}:{USER}:Tollgate server:/var/lib/tollgate:/sbin/nologin\n".encode(),
            0o644,
        ),
        "etc/group": (f"tollgate:x:{USER}:\n".encode(), 0o644),
        "etc/nsswitch.conf": (b"hosts: files dns\n", 0o644),
        "etc/ssl/certs/ca-certificates.crt": (CERTIFICATES.read_bytes(), 0o644),
        "etc/tollgate/tollgate.toml": (configuration(staged), 0o644),
        "etc/tollgate/routes/score.luau": ((staged / "etc/tollgate/routes/score.luau").read_bytes(), 0o644),
        "usr/bin/tollgate": (release.binary.read_bytes(), 0o755),
        "usr/share/doc/tollgate/licences.txt": (licences.read_bytes(), 0o644),
    }
    files |= {str(path).lstrip("/"): (path.read_bytes(), 0o755) for path in libraries(release.binary)}
    parents = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    folders = dict.fromkeys(parents | {"dev", "proc", "sys", "var", "var/lib"}, (0o755, 0))
    folders |= {"tmp": (0o1777, 0), "var/lib/tollgate": (0o750, USER)}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (mode, owner) in sorted(folders.items()):
            archive.addfile(entry(name, mode, release.seconds, tarfile.DIRTYPE, owner))
        for name, (text, mode) in sorted(files.items()):
            add_file(archive, name, text, mode, release.seconds)
    return content.getvalue()


def settings(release: Release, digest: str) -> dict:
    created = datetime.fromtimestamp(release.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": release.debian,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/tollgate"],
            "Cmd": ["serve", "/etc/tollgate/tollgate.toml"],
            "WorkingDir": "/var/lib/tollgate",
            "ExposedPorts": {"8080/tcp": {}},
            "Volumes": {"/var/lib/tollgate": {}},
            "StopSignal": "SIGTERM",
            "Env": ["PATH=/usr/bin"],
            "Labels": {
                "org.opencontainers.image.title": "tollgate",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.revision": release.commit,
                "org.opencontainers.image.licenses": LICENSE,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [digest]},
        "history": [{"created": created, "created_by": "make dist"}],
    }


class Blobs:
    """The content of an image by its digests."""

    def __init__(self):
        self.content: dict[str, bytes] = {}

    def add(self, kind: str, content: bytes) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        self.content[digest] = content
        return {"mediaType": f"{MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, kind: str, document: dict) -> dict:
        return self.add(kind, json.dumps(document, sort_keys=True).encode())


def write_image(release: Release, staged: Path, licences: Path, out: Path) -> Path:
    plain = layer(release, staged, licences)
    blobs = Blobs()
    layers = [blobs.add("layer.v1.tar+gzip", packed(plain))]
    config = blobs.add_json(
        "config.v1+json", settings(release, f"sha256:{hashlib.sha256(plain).hexdigest()}")
    )
    manifest = blobs.add_json(
        "manifest.v1+json",
        {"schemaVersion": 2, "mediaType": f"{MEDIA}.manifest.v1+json", "config": config, "layers": layers},
    )
    manifest["platform"] = {"architecture": release.debian, "os": "linux"}
    # umoci and skopeo read the first name, Docker and containerd the second one.
    manifest["annotations"] = {
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": f"docker.io/library/tollgate:{release.version}",
    }
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [manifest]}
    path = out / f"tollgate-{release.version}-{release.debian}.oci.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": index}.items():
            add_file(archive, name, json.dumps(content, sort_keys=True).encode(), 0o644, release.seconds)
        for digest, content in sorted(blobs.content.items()):
            add_file(archive, f"blobs/sha256/{digest}", content, 0o644, release.seconds)
    return path
