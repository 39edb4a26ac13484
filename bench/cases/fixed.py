"""A fixed reply: what a connection costs before anything is computed."""

from case import Case, Probe
from load import Ab, Wrk
from servers import Epoll, H2o, Lighttpd, Nginx, Tollgate, Yaws

#: Why "a connection each" is dearer than with the best peers.
EACH = (
    "a connection each is sent by ab, which keeps the server no more than two thirds busy: processor time is what counts there. "
    "Our runtime registers each connection for reading and writing and takes it out again before it is closed, so that one "
    "epoll_ctl and one look at the sockets come on top of what nginx and h2o do."
)

CASE = Case(
    title="A fixed reply",
    text="Thirteen bytes of text, the same for every request. Nothing is recorded.",
    loads={
        "64 connections": Wrk("/fixed"),
        "pipelined 16 deep": Wrk("/fixed", depth=16),
        "a connection each": Ab("/fixed", connections=253),
    },
    servers=[Tollgate, Nginx, Lighttpd, H2o, Yaws],
    limit=Epoll,
    lost=EACH,
    probe=Probe("GET", "/fixed", b"hello, world\n"),
)
