"""From one connection to ten thousand."""

from lib.case import Case, Probe
from lib.load import Wrk
from lib.servers import Nginx, tollgate

CASE = Case(
    title="From one connection to ten thousand",
    text=(
        "The recorded reply again. One connection waits for each of its syncs alone; the more "
        "there are, the more share one."
    ),
    loads={
        f"{count:,} connections": Wrk("/recorded?x=20", connections=count)
        for count in (1, 10, 100, 1_000, 10_000)
    },
    servers=[tollgate("written"), tollgate("synced"), tollgate("synced", loads=True), Nginx],
    lost=(
        "with few connections a batch is one request or a few, and each batch crosses two threads "
        "and, if synced, the disk. With ten "
        "thousand, what a connection keeps in memory no longer fits the caches."
    ),
    probe=Probe("GET", "/recorded?x=20", b'{"score":41}'),
    records_per_request=1,
)
