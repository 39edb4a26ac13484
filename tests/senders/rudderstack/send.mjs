// Sends events by the Node.js SDK of RudderStack.

import Analytics from "@rudderstack/rudder-sdk-node"

const analytics = new Analytics("shop", { dataPlaneUrl: process.env.TOLLGATE_URL })

analytics.identify({ userId: "bob", traits: { plan: "free" } })
analytics.track({ anonymousId: "visitor-7", event: "Order Completed", properties: { total: 12.5 } })
await analytics.flush()
