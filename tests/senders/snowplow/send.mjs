// Sends events by the Node.js tracker of Snowplow.

import { buildPageView, newTracker } from "@snowplow/node-tracker"

const tracker = newTracker({ namespace: "shop", appId: "shop" }, { endpoint: process.env.TOLLGATE_URL })

tracker.track(buildPageView({ pageUrl: "https://shop.example/order", pageTitle: "Order" }))
tracker.flush()
