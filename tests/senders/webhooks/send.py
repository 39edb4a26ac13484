"""Sends webhooks as GitHub, Stripe and Slack do, made by hand after their documents, without signatures."""

import json
import os
import urllib.request

URL = os.environ["TOLLGATE_URL"]


def post(path: str, body: dict, headers: dict, kind: str = "application/json") -> tuple[int, bytes]:
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers | {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.status, reply.read()


def github():
    body = {
        "action": "opened",
        "issue": {"number": 7, "title": "Spelling"},
        "repository": {"id": 1, "full_name": "shop/orders", "owner": {"login": "shop"}},
        "sender": {"login": "ada"},
    }
    headers = {
        "User-Agent": "GitHub-Hookshot/044aadd",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-GitHub-Event": "issues",
        "X-GitHub-Hook-ID": "292430182",
    }
    # A delivery that is sent again from the settings of the repository makes no second row.
    for _ in range(2):
        assert post("/github", body, headers) == (204, b"")


def stripe():
    body = {
        "id": "evt_1",
        "object": "event",
        "api_version": "2026-01-28",
        "created": 1795775959,
        "data": {"object": {"id": "ch_1", "object": "charge", "amount": 1250, "currency": "eur"}},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
        "type": "charge.succeeded",
    }
    assert post("/stripe", body, {"User-Agent": "Stripe/1.0"}, "application/json; charset=utf-8") == (
        204,
        b"",
    )


def slack():
    challenge = {"token": "t", "challenge": "3eZbrw1aB10Xe", "type": "url_verification"}
    status, reply = post("/slack", challenge, {})
    assert (status, json.loads(reply)) == (200, {"challenge": "3eZbrw1aB10Xe"}), reply
    event = {"type": "app_mention", "user": "U1", "text": "hello", "ts": "1795775959.000100"}
    body = {
        "token": "t",
        "type": "event_callback",
        "event_id": "Ev1",
        "event_time": 1795775959,
        "event": event,
    }
    assert post("/slack", body, {})[0] == 200


github()
stripe()
slack()
