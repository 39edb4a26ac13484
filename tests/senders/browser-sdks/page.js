// Sends events by SDKs for pages.

import { AnalyticsBrowser } from "@segment/analytics-next"
import * as Sentry from "@sentry/browser"
import { newTracker, trackPageView } from "@snowplow/browser-tracker"
import mixpanel from "mixpanel-browser"
import posthog from "posthog-js"

const url = "http://127.0.0.1:8080"
const { host, protocol } = new URL(url)

// Segment: the settings replace those that the SDK would load from Segment.
const integrations = { "Segment.io": { apiHost: `${host}/v1`, protocol: protocol.replace(":", "") } }
const analytics = AnalyticsBrowser.load({ writeKey: "shop", cdnSettings: { integrations } })
analytics.track("Order Completed", { total: 12.5 })

// Sentry: the DSN contains a key and the number of a project.
Sentry.init({ dsn: `${protocol}//key@${host}/3` })
Sentry.captureMessage("the stock is empty", "warning")

// Snowplow
newTracker("shop", url, { appId: "page" })
trackPageView()

// Mixpanel
mixpanel.init("shop", { api_host: url })
mixpanel.track("Order Completed", { total: 12.5 })

// PostHog: compressed bodies of this SDK have no `Content-Encoding`. The SDK drops events of browsers
// without a window, as in this test.
posthog.init("shop", {
  api_host: url,
  disable_compression: true,
  advanced_disable_flags: true,
  opt_out_useragent_filter: true,
})
posthog.capture("order completed", { total: 12.5 })
