// Sends events by analytics-node.

import { Analytics } from "@segment/analytics-node"

const analytics = new Analytics({ writeKey: "shop", host: process.env.TOLLGATE_URL })

analytics.identify({ userId: "bob", traits: { plan: "free" } })
analytics.track({ anonymousId: "visitor-7", event: "Order Completed", properties: { total: 12.5 } })
await analytics.closeAndFlush()
