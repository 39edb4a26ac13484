"""The package of Debian, which dpkg-deb packs."""

import datetime
import gzip
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from packages import elf
from packages.release import DESCRIPTION, ROOT, SUMMARY, Release, maintainer, output

SCRIPTS = ("postinst", "prerm", "postrm")
NAME = "tollgate"


def libraries(binary: Path) -> str:
    """Returns what `Depends` has to name for a binary, or nothing for a static one.

    dpkg-shlibdeps takes the version of glibc from this machine, although an older one may be enough.
    """
    if not elf.libraries(binary):
        return ""
    if elf.libraries(binary) <= elf.PARTS_OF_GLIBC:
        major, minor = elf.glibc(binary)
        return f"libc6 (>= {major}.{minor})"
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder, "debian/control")
        control.parent.mkdir()
        control.write_text(f"Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n")
        found = output("dpkg-shlibdeps", "-O", f"-e{binary.resolve()}", cwd=folder)
    return found.strip().removeprefix("shlibs:Depends=")


def control(release: Release, tree: Path) -> str:
    size = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    depends = ", ".join(filter(None, [libraries(release.binary), "adduser"]))
    description = "\n".join(f" {line}" for line in DESCRIPTION.splitlines())
    return f"""Package: {NAME}
Version: {release.version}
Architecture: {release.debian}
Maintainer: {maintainer()}
Installed-Size: {size}
Pre-Depends: init-system-helpers (>= 1.54~)
Depends: {depends}
Suggests: postgresql-client, sqlite3
Section: httpd
Priority: optional
Description: {SUMMARY}
{description}
"""


def changelog(release: Release) -> str:
    date = datetime.datetime.fromtimestamp(release.seconds, datetime.UTC)
    return f"""{NAME} ({release.version}) stable; urgency=medium

  * See /usr/share/doc/{NAME}/CHANGELOG.md.

 -- {maintainer()}  {date:%a, %d %b %Y %H:%M:%S +0000}
"""


def document(release: Release, tree: Path, licences: Path) -> None:
    """Writes the documents that the policy of Debian requires."""
    documents = tree / "usr/share/doc" / NAME
    (documents / "changelog.gz").write_bytes(gzip.compress(changelog(release).encode(), 9, mtime=0))
    notice = (ROOT / "dist/deb/copyright").read_text()
    (documents / "copyright").write_text(notice)
    (documents / "licences.txt.gz").write_bytes(gzip.compress(licences.read_bytes(), 9, mtime=0))
    # copyright contains the first text, and names the place of the second one in Debian.
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        (documents / name).unlink()


def write_control(release: Release, tree: Path) -> None:
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}" for path in files]
    conffiles = [f"/{path.relative_to(tree)}" for path in files if path.is_relative_to(tree / "etc")]
    text = control(release, tree)
    folder = tree / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(text)
    (folder / "md5sums").write_text("\n".join(sums) + "\n")
    (folder / "conffiles").write_text("\n".join(conffiles) + "\n")
    for script in SCRIPTS:
        shutil.copyfile(ROOT / "dist/deb" / script, folder / script)
        (folder / script).chmod(0o755)


def write_deb(release: Release, staged: Path, licences: Path, out: Path) -> Path:
    path = out / f"{NAME}_{release.version}_{release.debian}.deb"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(staged, tree, symlinks=True)
        document(release, tree, licences)
        write_control(release, tree)
        # The folder was made for one user only.
        tree.chmod(0o755)
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", tree, path]
        subprocess.run(command, check=True, env=release.environment, stdout=subprocess.DEVNULL)
    return path
