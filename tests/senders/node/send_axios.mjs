// Sends events by axios.

import axios from "axios"

const url = `${process.env.TOLLGATE_URL}/events`

await axios.post(url, { kind: "json", value: 1 })
await axios.post(url, [{ kind: "list", value: 2 }, { kind: "list", value: 3 }])
// A text has the type application/x-www-form-urlencoded unless the program sets one.
await axios.post(url, JSON.stringify({ kind: "text", value: 4 }))
