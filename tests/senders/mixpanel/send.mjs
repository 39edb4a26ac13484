// Sends events by the Node.js library of Mixpanel.

import { promisify } from "node:util"

import Mixpanel from "mixpanel"

const { protocol, host } = new URL(process.env.TOLLGATE_URL)
const mixpanel = Mixpanel.init("shop", { host, protocol: protocol.replace(":", "") })

const track = promisify(mixpanel.track)
await track("Order Completed", { distinct_id: "bob", total: 12.5 })

const trackBatch = promisify(mixpanel.track_batch)
await trackBatch([
  { event: "Item Shipped", properties: { distinct_id: "bob", total: 1 } },
  { event: "Item Shipped", properties: { distinct_id: "bob", total: 2 } },
])
