"""Sends events by the Python SDK of RudderStack."""

import os

import rudderstack.analytics as analytics

analytics.write_key = "shop"
analytics.dataPlaneUrl = os.environ["TOLLGATE_URL"]

analytics.identify("ada", {"plan": "free"})
analytics.track("ada", "Order Completed", {"total": 12.5})
analytics.shutdown()
