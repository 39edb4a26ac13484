"""Sends events in the ways that programs with Requests use."""

import gzip
import json
import os

import requests

URL = os.environ["TOLLGATE_URL"] + "/events"


def main():
    with requests.Session() as session:

        def send(**arguments):
            session.post(URL, timeout=60, **arguments).raise_for_status()

        send(json={"kind": "json", "value": 1})
        send(json=[{"kind": "list", "value": 2}, {"kind": "list", "value": 3}])
        send(data=json.dumps({"kind": "text", "value": 4}))
        lines = [json.dumps({"kind": "lines", "value": value}).encode() for value in (5, 6)]
        send(data=b"\n".join(lines), headers={"Content-Type": "application/x-ndjson"})
        # A generator is sent in chunks.
        send(data=(line + b"\n" for line in lines), headers={"Content-Type": "application/x-ndjson"})
        packed = gzip.compress(json.dumps({"kind": "gzip", "value": 7}).encode())
        send(data=packed, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})


if __name__ == "__main__":
    main()
