"""Installs the packages that a bench needs in addition to Tollgate, if root runs it on Debian.

For other users it prints the command.
"""

import os
import subprocess
import sys

from lib.load import Oha
from lib.servers import BENCH


def install_packages(wanted: set[str]):
    missing = sorted(package for package in wanted if not is_installed(package))
    if missing and os.geteuid() != 0:
        sys.exit(f"missing: install as root: apt-get install {' '.join(missing)}")
    if missing:
        tell(f"installing {' '.join(missing)}")
        subprocess.run([str(BENCH / "lib/install"), *missing], check=True, stdout=subprocess.DEVNULL)


def install_oha():
    if not Oha.program.exists():
        folder = Oha.program.parent.parent
        tell(f"building oha into {folder}")
        subprocess.run([*Oha.install, str(folder)], check=True, capture_output=True)


def is_installed(package: str) -> bool:
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f=${Status}", package], capture_output=True, text=True, check=False
    )
    return asked.stdout == "install ok installed"


def tell(text: str):
    print(text, flush=True)
