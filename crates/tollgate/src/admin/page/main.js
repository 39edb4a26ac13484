// Asks the server once a second while the page is visible, and shows the answer.
const PERIOD = 1000
const PATIENCE = 4000
const GAP = 3
let latest = null
let answeredAt = 0
let clockOffset = 0
let secret = new URLSearchParams(location.hash.slice(1)).get("token") || ""
let isAsking = false
let isHistoryDue = true
let timer = 0

const serverNow = () => Date.now() / 1000 + clockOffset
const ask = async target => {
  const fields = secret ? { Authorization: `Bearer ${secret}` } : {}
  const answer = await fetch(target, { headers: fields, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) })
  if (answer.status === 401) throw new Error("token")
  if (!answer.ok) throw new Error(`status ${answer.status}`)
  return answer.json()
}
const readHistory = async () => {
  const since = history.fine.end ? `?since=${history.fine.end}` : ""
  const found = await ask(`/history${since}`).catch(error => { if (error.message === "token") throw error })
  isHistoryDue = false
  if (!found) return
  if (isKnown(found.now)) clockOffset = found.now - Date.now() / 1000
  history.fine.merge(found.fine)
  history.coarse.merge(found.coarse)
}
const show = () => {
  const isAnswering = Date.now() - answeredAt < PERIOD * 2.5
  say(one("clock"), `${clockTime(Date.now() / 1000, true)} (${zone()})`)
  if (!latest) return
  showVerdict(latest, isAnswering)
  say(one("stale"), isAnswering ? "" : `The last answer came ${plural(Math.round((Date.now() - answeredAt) / 1000), "second")} ago.`)
  for (const id of ["path", "tables", "charts"]) one(id).classList.toggle("is-old", !isAnswering)
}
const take = doc => {
  const now = serverNow()
  doc.rates ||= {}
  doc.latency ||= {}
  if (latest && latest.process_id !== doc.process_id) rates.forget()
  rates.look(now, countersOf(doc))
  const sample = sampleOf(doc)
  history.fine.add(now, sample)
  history.coarse.add(now, sample)
  latest = doc
  answeredAt = Date.now()
  one("ask").hidden = true
  one("state").hidden = false
  say(one("about"), `${printable(doc.version)} · ${printable(doc.phase)} for ${seconds(doc.uptime_seconds)} · configuration ${printable(doc.config && doc.config.digest)}`)
  show()
  showPath(doc)
  showCharts(doc)
  showTables(doc)
}
const askForToken = () => {
  isAsking = true
  say(one("ask-why"), secret ? "The server refused this token." : "It is the token of [admin] in the configuration of the server. For a page of tollgate status --web, open the whole URL that the command printed.")
  one("state").hidden = true
  one("ask").hidden = false
  one("token").value = ""
  one("token").focus()
}
// Returns nothing if the server does not answer.
const read = async () => {
  try {
    if (isHistoryDue || (answeredAt && Date.now() - answeredAt > GAP * PERIOD)) await readHistory()
    return await ask("/status")
  } catch (error) {
    if (error.message === "token") askForToken()
  }
}
const poll = async () => {
  const begun = Date.now()
  const doc = await read()
  // A fault while the answer is shown must not end the polls.
  schedule(Math.max(50, PERIOD - (Date.now() - begun)))
  if (doc) take(doc)
  else if (!isAsking) {
    answeredAt ||= Date.now() - GAP * PERIOD
    latest ||= {}
    one("state").hidden = false
    show()
  }
}
const schedule = pause => {
  clearTimeout(timer)
  if (!document.hidden && !isAsking) timer = setTimeout(poll, pause)
}
const choose = chosen => {
  range = chosen
  for (const [at, button] of [...one("ranges").children].entries()) button.setAttribute("aria-pressed", RANGES[at] === chosen)
  if (latest) showCharts(latest)
}

buildPath()
TABLES.forEach(buildTable)
one("charts").append(...charts.map(chart => chart.element))
for (const item of RANGES) {
  const button = make("button", "", item[0])
  button.type = "button"
  button.addEventListener("click", () => choose(item))
  one("ranges").append(button)
}
choose(RANGES[0])
one("ask").addEventListener("submit", event => {
  event.preventDefault()
  secret = one("token").value
  one("token").value = ""
  isAsking = false
  isHistoryDue = true
  poll()
})
document.addEventListener("visibilitychange", () => schedule(0))
setInterval(show, PERIOD)
poll()
