"""Networks for one run, as root: a loopback with short packets, and two hosts with a cable between them."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lib.load import Load
from lib.servers import LOAD_CORE, SERVER_CORE, Server

#: Flags of unshare(2).
CLONE_NEWNS, CLONE_NEWNET = 0x0002_0000, 0x4000_0000
#: Addresses for tests between hosts: RFC 2544 appendix C.2.2.
SERVER_ADDRESS, CLIENT_ADDRESS, PREFIX = "198.18.0.1", "198.18.0.2", 24
#: Name of the congestion control. Every Linux has `reno`. The cable loses no packet, so it behaves like
#: `cubic` here.
CONGESTION = "reno"


@contextmanager
def loopback(mtu: int) -> Iterator[None]:
    """Moves this process, and each process that it starts, to a new network.

    The packets of its loopback have at most `mtu` bytes.
    """
    unshare(CLONE_NEWNET)
    ip("link", "set", "lo", "mtu", str(mtu), "up")
    yield


@contextmanager
def two_hosts(mtu: int, congestion: str) -> Iterator[None]:
    """Makes a network for the server, a network for the clients, and a veth(4) between them.

    The core of a host processes the packets that this host receives, as with two machines. Over loopback the
    core of the sender processes them, so that clients pay for waking the server.
    """
    unshare(CLONE_NEWNET | CLONE_NEWNS)
    # /sys/class/net shows the network in which /sys was mounted, so /sys is mounted again.
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
    host = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"], stdout=subprocess.PIPE, text=True
    )
    try:
        host.stdout.readline()
        there = ["nsenter", f"--net=/proc/{host.pid}/ns/net"]
        ip(
            "link",
            "add",
            "server",
            "mtu",
            str(mtu),
            "type",
            "veth",
            "peer",
            "name",
            "clients",
            "mtu",
            str(mtu),
        )
        receive_on(SERVER_CORE, "server")
        receive_on(LOAD_CORE, "clients")
        ip("link", "set", "clients", "netns", str(host.pid))
        for run_by, end, address in [([], "server", SERVER_ADDRESS), (there, "clients", CLIENT_ADDRESS)]:
            ip("addr", "add", f"{address}/{PREFIX}", "dev", end, run_by=run_by)
            for link in ["lo", end]:
                ip("link", "set", link, "up", run_by=run_by)
        # The congestion control of a host applies to connections that it opens and that it accepts.
        Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(congestion)
        Server.host = Load.host = SERVER_ADDRESS
        Load.run_by = [*there, *Load.run_by]
        yield
    finally:
        host.kill()
        host.wait()


def receive_on(core: str, end: str):
    """Makes a core process the packets that one end of the cable receives, by Receive Packet Steering.

    Source: `Documentation/networking/scaling.rst` of Linux.
    """
    Path(f"/sys/class/net/{end}/queues/rx-0/rps_cpus").write_text(f"{1 << int(core):x}")


def ip(*words: str, run_by: list[str] | None = None):
    subprocess.run([*(run_by or []), "ip", *words], check=True)


def unshare(what: int):
    if ctypes.CDLL(None, use_errno=True).unshare(what):
        raise OSError(ctypes.get_errno(), f"cannot create a namespace: {os.strerror(ctypes.get_errno())}")
