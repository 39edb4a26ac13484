"""Sends events by the Python SDK of PostHog."""

import os

from posthog import Posthog

posthog = Posthog("shop", host=os.environ["TOLLGATE_URL"])

posthog.capture("order completed", distinct_id="ada", properties={"total": 12.5})
posthog.shutdown()
