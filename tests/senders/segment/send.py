"""Sends events by analytics-python."""

import os

import segment.analytics as analytics

analytics.write_key = "shop"
analytics.host = os.environ["TOLLGATE_URL"]

analytics.identify("ada", {"plan": "free"})
analytics.track("ada", "Order Completed", {"total": 12.5})
analytics.shutdown()
