"""A scripted reply with a record: the main use of Tollgate."""

from cases.fixed import EACH
from lib.case import Case, Probe
from lib.load import Ab, Wrk
from lib.servers import Epoll, Lighttpd, Nginx, RunwaySyncLoop, SyncLoop, tollgate

CASE = Case(
    title="A scripted reply with its record",
    text=(
        "The same script, and each request is kept: time, client, path, status, duration, score. "
        "The peers write a line of text into a "
        "buffer of their process; what is in it is gone when the process is. Tollgate at each of "
        "its levels, and once more with SQLite "
        "loading on the same core."
    ),
    loads={
        "1 connection": Wrk("/recorded?x=20", connections=1),
        "10 connections": Wrk("/recorded?x=20", connections=10),
        "64 connections": Wrk("/recorded?x=20"),
        "pipelined 16 deep": Wrk("/recorded?x=20", depth=16),
        "a connection each": Ab("/recorded?x=20", connections=253),
    },
    servers=[
        tollgate("received"),
        tollgate("written"),
        tollgate("synced"),
        tollgate("synced", loads=True),
        Nginx,
        Lighttpd,
    ],
    limit=Epoll,
    loops={"1 connection": [SyncLoop, RunwaySyncLoop]},
    lost=(
        "a reply at `written` waits for a write, and one at `synced` for the disk, which no peer "
        "does: they have copied a line into a "
        "buffer. Without pipelining, few requests share that wait. "
        f"And {EACH}"
    ),
    probe=Probe("GET", "/recorded?x=20", b'{"score":41}'),
    records_per_request=1,
)
