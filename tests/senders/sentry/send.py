"""Sends errors by the Python SDK of Sentry."""

import os

import sentry_sdk

# The DSN is the URL of the server with a key and the number of a project.
sentry_sdk.init(dsn=os.environ["TOLLGATE_URL"].replace("://", "://key@") + "/1", release="shop@1.2")

sentry_sdk.capture_message("the stock is empty", level="warning")
try:
    print(1 / 0)
except ZeroDivisionError as error:
    sentry_sdk.capture_exception(error)
sentry_sdk.flush()
