"""Sends log lines by splunk-handler, a handler for the module `logging`."""

import logging
import os
from urllib.parse import urlsplit

import requests
from splunk_handler import SplunkHandler

server = urlsplit(os.environ["TOLLGATE_URL"])
handler = SplunkHandler(
    host=server.hostname,
    port=server.port,
    protocol=server.scheme,
    token="12345678-1234-1234-1234-1234567890ab",
    index="main",
    hostname="shop-1",
    source="shop",
)
logging.getLogger("shop").addHandler(handler)

logging.getLogger("shop").warning("the stock is low: %d", 3)
logging.getLogger("shop").error("the stock is empty")
handler.shutdown()

# A request with another token is refused.
url = os.environ["TOLLGATE_URL"] + "/services/collector/event"
refused = requests.post(url, json={"event": "no"}, headers={"Authorization": "Splunk 1"}, timeout=60)
assert refused.status_code == 403, refused
