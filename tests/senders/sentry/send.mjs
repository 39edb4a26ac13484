// Sends errors by the Node.js SDK of Sentry.

import * as Sentry from "@sentry/node"

// The DSN is the URL of the server with a key and the number of a project.
Sentry.init({ dsn: `${process.env.TOLLGATE_URL.replace("://", "://key@")}/2`, release: "shop@1.2" })

Sentry.captureMessage("the stock is empty", "warning")
Sentry.captureException(new RangeError("not in stock"))
await Sentry.close(60000)
