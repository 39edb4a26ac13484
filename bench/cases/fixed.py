"""A fixed reply: the cost of a connection and a request, without any work of a handler."""

from lib.case import Case, Probe
from lib.load import Ab, Wrk
from lib.servers import Epoll, H2o, Lighttpd, Nginx, Tollgate, Yaws

#: The reason why the row "a connection each" may be below one.
EACH = (
    "a connection each is sent by ab, which keeps the server half busy: it is the limit, and "
    "processor time is what counts there."
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
