"""Sends events in the ways that programs with aiohttp use."""

import asyncio
import os

import aiohttp

URL = os.environ["TOLLGATE_URL"] + "/events"


async def main():
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await session.post(URL, json={"kind": "json", "value": 1})
        await session.post(URL, json=[{"kind": "list", "value": 2}, {"kind": "list", "value": 3}])
        # The client compresses the body and sends it in chunks.
        await session.post(URL, json={"kind": "deflate", "value": 4}, compress="deflate")
        # Bytes have the type application/octet-stream unless the program sets one.
        types = {"Content-Type": "application/json"}
        await session.post(URL, data=b'{"kind":"bytes","value":5}', headers=types)


if __name__ == "__main__":
    asyncio.run(main())
