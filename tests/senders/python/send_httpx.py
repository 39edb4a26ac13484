"""Sends events in the ways that programs with HTTPX use."""

import asyncio
import json
import os
from collections.abc import AsyncIterator

import httpx

URL = os.environ["TOLLGATE_URL"] + "/events"
LINES = {"Content-Type": "application/x-ndjson"}


async def lines() -> AsyncIterator[bytes]:
    for value in (2, 3):
        yield json.dumps({"kind": "lines", "value": value}).encode() + b"\n"


async def main():
    httpx.post(URL, json={"kind": "json", "value": 1}, timeout=60).raise_for_status()
    async with httpx.AsyncClient(timeout=60) as client:
        # A generator is sent in chunks.
        (await client.post(URL, content=lines(), headers=LINES)).raise_for_status()
        # `data` with a text has no type of its own.
        (await client.post(URL, content='[{"kind":"text","value":4}]')).raise_for_status()


if __name__ == "__main__":
    asyncio.run(main())
