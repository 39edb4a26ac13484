"""A reply that a script computes."""

from cases.fixed import EACH
from lib.case import Case, Probe
from lib.load import Ab, Wrk
from lib.servers import Epoll, Lighttpd, Nginx, Tollgate, Yaws

CASE = Case(
    title="A scripted reply",
    text=(
        "A number of the query is read, doubled, and sent as JSON. Nothing is recorded. h2o has no "
        "script handler in Debian's build."
    ),
    loads={
        "64 connections": Wrk("/score?x=20"),
        "pipelined 16 deep": Wrk("/score?x=20", depth=16),
        "a connection each": Ab("/score?x=20", connections=253),
    },
    servers=[Tollgate, Nginx, Lighttpd, Yaws],
    limit=Epoll,
    lost=EACH,
    probe=Probe("GET", "/score?x=20", b'{"score":41}'),
)
