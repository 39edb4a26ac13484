"""Processor time of process trees, memory of processes, and bytes that reached a disk."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SECTOR_BYTES = 512


def cpu_s_of(roots: list[int]) -> float:
    """Returns user and system time of these processes and their children, including ended children."""
    return sum(user_and_system_s_of(roots))


def user_and_system_s_of(roots: list[int]) -> tuple[float, float]:
    """Returns user and system time of each process without its children."""
    each = [times_of_process(pid) for root in roots for pid in process_tree(root)]
    return sum(user for user, _ in each), sum(system for _, system in each)


def process_tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(below for child in children for below in process_tree(int(child)))]


def times_of_process(pid: int) -> tuple[float, float]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0, 0.0
    # These fields are utime, stime, cutime and cstime of proc(5).
    user, system, user_of_children, system_of_children = (int(field) / TICKS_PER_S for field in fields[11:15])
    return user + user_of_children, system + system_of_children


def idle_s_of(core: str) -> float:
    """Returns how long a core was idle or waited for a disk: `idle` and `iowait` of proc_stat(5)."""
    lines = map(str.split, Path("/proc/stat").read_text().splitlines())
    times = next(fields for fields in lines if fields[0] == f"cpu{core}")
    return (int(times[4]) + int(times[5])) / TICKS_PER_S


def stolen_s() -> float:
    """Returns the total time for which the host gave the cores of this virtual machine to others.

    Source: `steal` of proc_stat(5).
    """
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / TICKS_PER_S


def memory_mib_of(pid: int) -> float:
    """Returns the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def disk_bytes_written(folder: Path) -> int:
    """Returns the bytes that all processes wrote to the disk of a folder, or 0 if it has no disk.

    Syncs first, so that dirty pages count. `write_bytes` of /proc/PID/io would count one process alone. It is
    not used, because it counts a whole large folio when one of its blocks is dirty.
    """
    os.sync()
    device = folder.stat().st_dev
    try:
        fields = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()
    except OSError:
        return 0
    # The seventh field, sectors written: Documentation/block/stat.rst of Linux.
    return int(fields[6]) * SECTOR_BYTES
