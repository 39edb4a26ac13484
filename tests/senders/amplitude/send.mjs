// Sends an event by the Node.js SDK of Amplitude.

import { flush, init, track } from "@amplitude/analytics-node"

await init("shop", { serverUrl: `${process.env.TOLLGATE_URL}/2/httpapi` }).promise

track("order completed", { total: 12.5 }, { user_id: "bob-7" })
await flush().promise
