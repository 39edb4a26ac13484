"""Sends events by the Python SDK of CloudEvents, in the three modes of its HTTP binding."""

import os

import requests
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

URL = os.environ["TOLLGATE_URL"]


def order(total: int) -> CloudEvent:
    return CloudEvent({"type": "shop.order", "source": "/shop"}, {"total": total})


def post(path: str, body: bytes, headers: dict):
    requests.post(URL + path, data=body, headers=headers, timeout=60).raise_for_status()


message = to_structured_event(order(1))
post("/events", message.body, message.headers)

# The SDK makes no batch. A batch is an array of structured events.
batch = b"[" + b",".join(to_structured_event(order(total)).body for total in (2, 3)) + b"]"
post("/events", batch, {"Content-Type": "application/cloudevents-batch+json"})

message = to_binary_event(order(4))
post("/binary", message.body, message.headers)
