"""The package of Fedora, RHEL and openSUSE. rpmbuild packs it."""

import datetime
import shutil
import subprocess
import tempfile
from pathlib import Path

from packages.release import DESCRIPTION, LICENSE, ROOT, SUMMARY, Release

#: Without them the file would name the machine, the time of the build, and ids of the debug information.
DEFINES = {
    "_buildhost": "localhost",
    "_build_id_links": "none",
    "__os_install_post": "%{nil}",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "source_date_epoch_from_changelog": "0",
    "_binary_payload": "w9.gzdio",
}


def spec(release: Release, tree: Path) -> str:
    date = datetime.datetime.fromtimestamp(release.seconds, datetime.UTC)
    scripts = (ROOT / "dist/rpm/scripts.spec").read_text()
    return f"""Name: tollgate
Version: {release.version}
Release: 1
Summary: {SUMMARY}
License: {LICENSE}
Requires(pre): shadow-utils
Requires(post): systemd
Requires(preun): systemd

%description
{DESCRIPTION}

%install
cp -a {tree}/. %{{buildroot}}/

{scripts}
%files
/usr/bin/tollgate
/usr/lib/systemd/system/tollgate.service
/usr/lib/systemd/system/tollgate.socket
/usr/lib/sysusers.d/tollgate.conf
/usr/share/bash-completion/completions/tollgate
/usr/share/zsh/site-functions/_tollgate
/usr/share/fish/vendor_completions.d/tollgate.fish
%doc /usr/share/doc/tollgate
/usr/share/man/man1/*
%dir /etc/tollgate
%dir /etc/tollgate/routes
%config(noreplace) /etc/tollgate/tollgate.toml
%config(noreplace) /etc/tollgate/routes/score.luau
%dir %attr(0750, tollgate, tollgate) /var/lib/tollgate

%changelog
* {date:%a %b %d %Y} The Tollgate developers - {release.version}-1
- See /usr/share/doc/tollgate/CHANGELOG.md.
"""


def write_rpm(release: Release, staged: Path, licences: Path, out: Path) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        tree, recipe = Path(folder, "tree"), Path(folder, "tollgate.spec")
        shutil.copytree(staged, tree, symlinks=True)
        # RPM systems search the completions of zsh in another folder than Debian.
        (tree / "usr/share/zsh/vendor-completions").rename(tree / "usr/share/zsh/site-functions")
        shutil.copyfile(licences, tree / "usr/share/doc/tollgate/licences.txt")
        (tree / "var/lib/tollgate").mkdir(parents=True)
        recipe.write_text(spec(release, tree))
        defines = DEFINES | {"_topdir": f"{folder}/top", "_dbpath": f"{folder}/db"}
        options = [word for name, value in defines.items() for word in ("--define", f"{name} {value}")]
        command = ["rpmbuild", "-bb", "--quiet", "--target", f"{release.rpm}-linux", *options, recipe]
        done = subprocess.run(command, env=release.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"rpmbuild ended with {done.returncode}: {done.stderr}")
        (built,) = Path(folder, "top/RPMS").rglob("*.rpm")
        return Path(shutil.copy(built, out / built.name))
