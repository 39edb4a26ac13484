"""Latency at a fixed rate, counted from the moment when each request was due."""

from lib.case import Case, Probe
from lib.load import Oha
from lib.servers import Lighttpd, Nginx, tollgate

CASE = Case(
    title="Latency at 20,000 requests a second",
    text=(
        "An open loop: oha sends at this rate whatever the server does, and counts latency from "
        "when a request was due, so a server that "
        "stalls cannot hide it (coordinated omission corrected)."
    ),
    loads={"20,000/s": Oha("/recorded?x=20", connections=64)},
    servers=[
        tollgate("received"),
        tollgate("written"),
        tollgate("synced"),
        tollgate("synced", loads=True),
        Nginx,
        Lighttpd,
    ],
    lost=(
        "a synced reply waits for the disk, and its p99 is that of fdatasync; a written one waits "
        "for another thread. The peers answer "
        "when a line is in a buffer, as `received` does."
    ),
    probe=Probe("GET", "/recorded?x=20", b'{"score":41}'),
    records_per_request=1,
)
