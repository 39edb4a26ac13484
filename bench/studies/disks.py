"""The same load on several file systems: `bench/study.py disks [--rounds N] [--seconds S]`, as root.

Each file system has an image on the disk of the folder, mounted by loop. One more row of the table has the
disk without an image. The study prints which file systems this machine does not support. Writes one table.
"""

import argparse
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from lib.load import Wrk
from lib.servers import LOAD_CORE, ROOT, built, rate_of_loop, tollgate

THE_DISK = "the disk itself"
KINDS = [THE_DISK, "ext4", "xfs", "btrfs", "f2fs", "nilfs2"]
IMAGE_BYTES = 2 << 30
LOADS = {"64 connections": Wrk("/recorded?x=20"), "pipelined 16 deep": Wrk("/recorded?x=20", depth=16)}
SERVERS = [tollgate("synced"), tollgate("synced", loads=True)]
LOOPS = {"append": "append", "runways of 128 KiB": "runway", "zeros beforehand": "zero"}
LOOP_BYTES = 4096


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument(
        "--folder", default=str(ROOT / "target"), help="folder on the disk that holds the images"
    )
    arguments = parser.parse_args()
    found = {kind: {} for kind in KINDS}
    for _ in range(arguments.rounds):
        for kind in KINDS:
            take_turn(kind, arguments, found[kind])
    print(table(found))


def take_turn(kind: str, arguments, found: dict):
    try:
        with mounted(kind, Path(arguments.folder)) as folder:
            for beside in ["", ", SQLite inserting"]:
                for name, mode in LOOPS.items():
                    rate = run_loop(mode, folder, arguments.seconds, bool(beside))
                    found.setdefault(f"4 KiB + fdatasync{beside}: {name}", []).append(rate)
            for server_class in SERVERS:
                for label, load in LOADS.items():
                    rate = run(server_class, load, folder, arguments.seconds)
                    found.setdefault(f"{server_class.name}, {label}", []).append(rate)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        found["missing"] = str(error)


def run_loop(mode: str, folder: Path, seconds: float, has_sqlite: bool) -> float:
    """Returns the rate of the bare loop, alone or while SQLite writes rows to the same disk, on the other
    core.
    """
    words = [str(folder / "loop"), str(LOOP_BYTES), str(seconds), mode]
    if not has_sqlite:
        return rate_of_loop("sync", words)
    base = folder / "base.sqlite"
    inserts = [str(built("insert", "-lsqlite3")), str(base), str(seconds + 1)]
    with subprocess.Popen(["taskset", "-c", LOAD_CORE, *inserts], stdout=subprocess.DEVNULL) as process:
        rate = rate_of_loop("sync", words)
        process.wait()
    for file in folder.glob("base.sqlite*"):
        file.unlink()
    return rate


@contextmanager
def mounted(kind: str, folder: Path):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        if kind == THE_DISK:
            yield Path(place)
            return
        image, mount = Path(place) / "image", Path(place) / "mounted"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        mount.mkdir()
        quietly([f"mkfs.{kind}", "-q", str(image)])
        quietly(["mount", "-o", "loop", str(image), str(mount)])
        try:
            yield mount
        finally:
            quietly(["umount", str(mount)])


def quietly(command: list[str]):
    subprocess.run(command, check=True, capture_output=True)


def run(server_class, load, folder: Path, seconds: float) -> float:
    server = server_class(folder / "server")
    server.start()
    try:
        load.run(server.port, 1)
        return load.run(server.port, seconds).rate
    finally:
        server.stop()


def table(found: dict) -> str:
    rows = list(dict.fromkeys(name for values in found.values() for name in values if name != "missing"))
    kinds = [kind for kind in KINDS if "missing" not in found[kind]]
    lines = ["| a second | " + " | ".join(kinds) + " |", "| --- |" + " --- |" * len(kinds)]
    lines += [
        f"| {row} | " + " | ".join(f"{median(found[kind][row]):,.0f}" for kind in kinds) + " |"
        for row in rows
    ]
    missing = [
        f"not here: {kind}: {values['missing']}" for kind, values in found.items() if "missing" in values
    ]
    return "\n".join([*lines, *missing])
