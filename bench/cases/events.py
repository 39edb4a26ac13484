"""One JSON event of 200 bytes per POST."""

import json

from lib.case import Case, Probe
from lib.load import Wrk
from lib.servers import Nginx, tollgate

EVENT = json.dumps({"kind": "click", "user": "4b3403665fea", "amount": 42, "note": "x" * 133}).encode()
assert len(EVENT) == 200, len(EVENT)

CASE = Case(
    title="A JSON event of 200 bytes",
    text=(
        "Tollgate parses the event and puts it into typed columns; nginx writes the body as it "
        "came into its log buffer, unread."
    ),
    loads={
        "64 connections": Wrk("/event", body=EVENT),
        "pipelined 16 deep": Wrk("/event", depth=16, body=EVENT),
    },
    servers=[tollgate("written"), tollgate("synced"), tollgate("synced", loads=True), Nginx],
    lost=(
        "a synced reply waits for the disk, and few requests share that wait without pipelining; "
        "SQLite takes its part of the core."
    ),
    probe=Probe("POST", "/event", b'{"recorded":1}\n', EVENT),
    records_per_request=1,
)
