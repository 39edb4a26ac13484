"""A hundred events per POST, one per line (NDJSON)."""

from cases.events import EVENT
from lib.case import Case, Probe
from lib.load import Wrk
from lib.servers import Nginx, tollgate

LINES = (EVENT + b"\n") * 100

CASE = Case(
    title="A hundred JSON events in one POST",
    text="NDJSON, 20 KiB a request. As before, nginx does not look into the body.",
    loads={"64 connections": Wrk("/event", body=LINES)},
    servers=[tollgate("written"), tollgate("synced"), tollgate("synced", loads=True), Nginx],
    lost="with SQLite on the same core, inserting the rows takes as much of it as everything before.",
    probe=Probe("POST", "/event", b'{"recorded":100}\n', LINES),
    records_per_request=100,
)
