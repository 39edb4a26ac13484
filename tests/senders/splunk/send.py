"""Sends log lines by splunk-handler, a handler for the module `logging`."""

import logging
import os
from urllib.parse import urlsplit

from splunk_handler import SplunkHandler

server = urlsplit(os.environ["TOLLGATE_URL"])
handler = SplunkHandler(
    host=server.hostname,
    port=server.port,
    protocol=server.scheme,
    token="token",
    index="main",
    hostname="shop-1",
    source="shop",
)
logging.getLogger("shop").addHandler(handler)

logging.getLogger("shop").warning("the stock is low: %d", 3)
logging.getLogger("shop").error("the stock is empty")
handler.shutdown()
