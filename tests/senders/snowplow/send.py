"""Sends events by the Python tracker of Snowplow."""

import os

from snowplow_tracker import Emitter, PageView, Tracker

emitter = Emitter(os.environ["TOLLGATE_URL"])
tracker = Tracker("shop", emitters=emitter, app_id="shop")
tracker.track(PageView("https://shop.example/order", page_title="Order"))
tracker.flush()

# The tracker may also send each event as a query.
emitter = Emitter(os.environ["TOLLGATE_URL"], method="get")
tracker = Tracker("shop", emitters=emitter, app_id="shop")
tracker.track(PageView("https://shop.example/thanks"))
tracker.flush()
