"""Sends events by the Python library of Mixpanel."""

import os

from mixpanel import BufferedConsumer, Mixpanel

consumer = BufferedConsumer(events_url=os.environ["TOLLGATE_URL"] + "/track")
mixpanel = Mixpanel("shop", consumer=consumer)

mixpanel.track("ada", "Order Completed", {"total": 12.5})
mixpanel.track("ada", "Order Shipped")
consumer.flush()
