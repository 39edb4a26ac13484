// Sends events by the Node.js SDK of PostHog.

import { PostHog } from "posthog-node"

const posthog = new PostHog("shop", { host: process.env.TOLLGATE_URL })

posthog.capture({ event: "order completed", distinctId: "bob", properties: { total: 12.5 } })
await posthog.shutdown()
