// Sends events by SDKs for pages.

import mixpanel from "mixpanel-browser"
import posthog from "posthog-js"

const url = "http://127.0.0.1:8080"

posthog.init("shop", {
  api_host: url,
  // Compressed bodies of this SDK have no `Content-Encoding`.
  disable_compression: true,
  advanced_disable_flags: true,
  // The SDK drops events of browsers without a window, as in this test.
  opt_out_useragent_filter: true,
})
posthog.capture("order completed", { total: 12.5 })

mixpanel.init("shop", { api_host: url })
mixpanel.track("Order Completed", { total: 12.5 })

snowplowBrowserTracking.newTracker("shop", url, { appId: "page" })
snowplowBrowserTracking.trackPageView()
