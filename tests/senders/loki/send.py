"""Sends log lines by python-logging-loki, a handler for the module `logging`."""

import logging
import os

import logging_loki

handler = logging_loki.LokiHandler(
    url=os.environ["TOLLGATE_URL"] + "/loki/api/v1/push",
    tags={"app": "shop"},
    version="1",
)
logging.getLogger("shop").addHandler(handler)

logging.getLogger("shop").warning("the stock is low", extra={"tags": {"left": "3"}})
logging.getLogger("shop").error("the stock is empty")
