// Sends events by the `fetch` of Node.js.

const url = `${process.env.TOLLGATE_URL}/events`

async function send(options) {
  const reply = await fetch(url, { method: "POST", ...options })
  if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`)
}

// A text has the type text/plain.
await send({ body: JSON.stringify({ kind: "text", value: 1 }) })
await send({
  body: JSON.stringify({ kind: "json", value: 2 }),
  headers: { "Content-Type": "application/json" },
})
await send({ body: new Blob([JSON.stringify({ kind: "blob", value: 3 })], { type: "application/json" }) })
// Bytes have no type.
await send({ body: new TextEncoder().encode(JSON.stringify({ kind: "bytes", value: 4 })) })

// A stream is sent in chunks.
async function* lines() {
  const encoder = new TextEncoder()
  for (const value of [5, 6]) yield encoder.encode(`${JSON.stringify({ kind: "lines", value })}\n`)
}
await send({
  body: ReadableStream.from(lines()),
  headers: { "Content-Type": "application/x-ndjson" },
  duplex: "half",
})

// A compressed body.
const text = new Blob([JSON.stringify({ kind: "gzip", value: 7 })])
const compressed = text.stream().pipeThrough(new CompressionStream("gzip"))
await send({ body: compressed, headers: { "Content-Encoding": "gzip" }, duplex: "half" })
