// Sends events in all ways of a page: the body types of `sendBeacon`, and `fetch` with `keepalive`.

const url = "http://127.0.0.1:8080"

function sendBeacons() {
  // A text has the type text/plain.
  navigator.sendBeacon(`${url}/events`, JSON.stringify({ kind: "text", value: 1 }))

  // The browser asks for permission (preflight) before it sends this type.
  const json = new Blob([JSON.stringify({ kind: "blob", value: 2 })], { type: "application/json" })
  navigator.sendBeacon(`${url}/events`, json)

  // Bytes have no type.
  const bytes = new TextEncoder().encode(JSON.stringify({ kind: "bytes", value: 3 }))
  navigator.sendBeacon(`${url}/events`, bytes)

  // multipart/form-data
  const form = new FormData()
  form.append("kind", "form")
  form.append("value", "4")
  navigator.sendBeacon(`${url}/forms`, form)

  // application/x-www-form-urlencoded
  navigator.sendBeacon(`${url}/forms`, new URLSearchParams({ kind: "parameters", value: "5" }))
}

// Unlike a beacon, the page gets the reply if the page still exists.
async function send(event) {
  const reply = await fetch(`${url}/events`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(event),
    keepalive: true,
  })
  return reply.json()
}

// The test waits until the browser reports that each beacon has its reply.
function answered(count) {
  return new Promise(resolve => {
    new PerformanceObserver((_, observer) => {
      const entries = performance.getEntriesByType("resource")
      if (entries.filter(entry => entry.initiatorType === "beacon").length < count) return
      observer.disconnect()
      resolve()
    }).observe({ type: "resource", buffered: true })
  })
}

sendBeacons()
Promise.all([send({ kind: "fetch", value: 6 }), answered(5)])
  .then(([reply]) => ({ recorded: reply.recorded }), error => ({ error: `${error}` }))
  .then(said => fetch("/said", { method: "POST", body: JSON.stringify(said) }))
