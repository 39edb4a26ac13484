"""Records from a hundred bytes to 64 KiB."""

import json

from lib.case import Case, Probe
from lib.load import Wrk
from lib.servers import Nginx, tollgate


def event(size: int) -> bytes:
    shell = json.dumps({"kind": "click", "note": ""})
    return json.dumps({"kind": "click", "note": "x" * (size - len(shell))}).encode()


CASE = Case(
    title="Records from 100 bytes to 64 KiB",
    text="One event per POST, 64 connections.",
    loads={f"{size:,} bytes": Wrk("/event", body=event(size)) for size in (100, 1_024, 8_192, 65_536)},
    servers=[tollgate("written"), tollgate("synced"), tollgate("synced", loads=True), Nginx],
    lost="small records at `synced` wait for the disk; nginx waits for nothing.",
    probe=Probe("POST", "/event", b'{"recorded":1}\n', event(100)),
    records_per_request=1,
)
