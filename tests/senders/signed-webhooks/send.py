"""Sends webhooks that the library of each service signs. GitHub and Shopify have only examples.

Each webhook is sent three times, and is one row. A webhook with another content is refused.
"""

import base64
import datetime
import hashlib
import hmac
import os
import time
import urllib.parse

import requests
import stripe
from nacl.signing import SigningKey
from slack_sdk.signature import SignatureVerifier
from standardwebhooks import Webhook
from twilio.request_validator import RequestValidator

URL = os.environ["TOLLGATE_URL"]
SECRET = os.environ["HOOK_SECRET"]
JSON = "application/json"


def content(number):
    return f'{{"n":{number}}}'


def github(body):
    # docs.github.com, "Validating webhook deliveries"
    code = hmac.new(SECRET.encode(), msg=body.encode(), digestmod=hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": "sha256=" + code}


def shopify(body):
    # shopify.dev, "Deliver webhooks through HTTPS"
    code = hmac.new(SECRET.encode(), body.encode(), digestmod=hashlib.sha256).digest()
    return {"X-Shopify-Hmac-SHA256": base64.b64encode(code).decode()}


def with_stripe(body):
    now = int(time.time())
    code = stripe.WebhookSignature._compute_signature(f"{now}.{body}", SECRET)
    header = f"t={now},v1={code}"
    assert stripe.WebhookSignature.verify_header(body, header, SECRET, 300)
    return {"Stripe-Signature": header}


def slack(body):
    now = str(int(time.time()))
    code = SignatureVerifier(SECRET).generate_signature(timestamp=now, body=body)
    return {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": code}


def standard_webhooks(body):
    now = datetime.datetime.now(tz=datetime.UTC)
    code = Webhook(os.environ["STANDARD_SECRET"]).sign("msg_1", now, body)
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(now.timestamp())),
        "Webhook-Signature": code,
    }


def discord(body):
    now = str(int(time.time()))
    code = SigningKey(bytes.fromhex(os.environ["DISCORD_SEED"])).sign((now + body).encode()).signature
    return {"X-Signature-Timestamp": now, "X-Signature-Ed25519": code.hex()}


def twilio(url, fields):
    return {"X-Twilio-Signature": RequestValidator(SECRET).compute_signature(url, fields)}


def deliver(url, number, body, kind, headers):
    """Sends a webhook three times, and another content once."""
    headers = headers | {"X-Delivery": str(number), "Content-Type": kind}
    for _ in range(3):
        requests.post(url, data=body, headers=headers, timeout=60).raise_for_status()
    other = requests.post(url, data=body + " ", headers=headers, timeout=60)
    assert other.status_code == 401, f"{url}: {other.status_code}"


def main():
    for number, sign in enumerate([github, with_stripe, slack, shopify, standard_webhooks], 1):
        name = sign.__name__.removeprefix("with_").replace("_", "-")
        body = content(number)
        deliver(f"{URL}/{name}/{name}", number, body, JSON, sign(body))
    body = content(6)
    url = f"{URL}/twilio/twilio?bodySHA256={RequestValidator(SECRET).compute_hash(body)}"
    deliver(url, 6, body, JSON, twilio(url, {}))
    body = content(7)
    deliver(f"{URL}/discord/discord", 7, body, JSON, discord(body))
    fields = {"To": "+18005551212", "Body": "h\u00e9 & b=1", "Empty": "", "Digits": "1234"}
    path, body = "/form/twilio-form?a=%20", urllib.parse.urlencode(fields)
    headers = twilio("https://hooks.example/base" + path, fields)
    deliver(URL + path, 8, body, "application/x-www-form-urlencoded", headers)


if __name__ == "__main__":
    main()
