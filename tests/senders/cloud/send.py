"""Sends a request as Amazon Data Firehose does, and one as Google Pub/Sub does.

Both services send from their own networks, so these requests are made by hand after their documents: "HTTP
endpoint delivery request and response specifications" and "Receive messages from a push subscription".
"""

import base64
import gzip
import json
import os
import urllib.request

URL = os.environ["TOLLGATE_URL"]


def post(path: str, body: dict, headers: dict, compress: bool = False) -> tuple[int, bytes]:
    text = json.dumps(body).encode()
    if compress:
        text, headers = gzip.compress(text), headers | {"Content-Encoding": "gzip"}
    headers = {"Content-Type": "application/json"} | headers
    request = urllib.request.Request(URL + path, text, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.status, reply.read()


def base64_of(item: dict) -> str:
    return base64.b64encode(json.dumps(item).encode()).decode()


def firehose():
    items = [{"ticker": "ABC", "price": 12.5}, {"ticker": "XYZ", "price": 3.25}]
    body = {
        "requestId": "ed4acda5-034f-9f42-bba1-f29aea6d7d8f",
        "timestamp": 1795775959445,
        "records": [{"data": base64_of(item)} for item in items],
    }
    headers = {
        "X-Amz-Firehose-Protocol-Version": "1.0",
        "X-Amz-Firehose-Request-Id": body["requestId"],
        "X-Amz-Firehose-Source-Arn": "arn:aws:firehose:us-east-1:123456789:deliverystream/test",
        "X-Amz-Firehose-Access-Key": "key",
    }
    # The service repeats a request whose reply it does not get. The second request makes no rows.
    for compress in (False, True):
        status, reply = post("/firehose", body, headers, compress)
        expected = {"requestId": body["requestId"], "timestamp": body["timestamp"]}
        assert (status, json.loads(reply)) == (200, expected), reply


def pubsub():
    message = {
        "data": base64_of({"order": 7}),
        "messageId": "2070443601311540",
        "publishTime": "2026-11-27T12:39:19.445Z",
        "attributes": {"shop": "north"},
    }
    status, reply = post("/pubsub", {"message": message, "subscription": "projects/p/subscriptions/s"}, {})
    assert (status, reply) == (204, b""), reply


firehose()
pubsub()
