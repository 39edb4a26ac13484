// Sends events by the Node.js library of Mixpanel.

import Mixpanel from "mixpanel"

const { protocol, host } = new URL(process.env.TOLLGATE_URL)
const mixpanel = Mixpanel.init("shop", { host, protocol: protocol.replace(":", "") })

function track(...event) {
  return new Promise((resolve, reject) => mixpanel.track(...event, error => (error ? reject(error) : resolve())))
}

await track("Order Completed", { distinct_id: "bob", total: 12.5 })

const events = [1, 2].map(item => ({ event: "Item Shipped", properties: { distinct_id: "bob", total: item } }))
await new Promise((resolve, reject) => mixpanel.track_batch(events, errors => (errors ? reject(errors[0]) : resolve())))
