// Sends events by the JavaScript SDK of CloudEvents.

import { CloudEvent, emitterFor, httpTransport, Mode } from "cloudevents"

const url = process.env.TOLLGATE_URL
const order = total => new CloudEvent({ type: "page.order", source: "/page", data: { total } })

const structured = emitterFor(httpTransport(`${url}/events`), { mode: Mode.STRUCTURED })
await structured(order(5))

const binary = emitterFor(httpTransport(`${url}/binary`))
await binary(order(6))
