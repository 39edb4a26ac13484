"""Sends an event by the Python SDK of Amplitude."""

import os

from amplitude import Amplitude, BaseEvent, Config

amplitude = Amplitude("shop", Config(server_url=os.environ["TOLLGATE_URL"] + "/2/httpapi"))

amplitude.track(BaseEvent("order completed", user_id="ada", event_properties={"total": 12.5}))
amplitude.shutdown()
