// The tables. Each has a bound of rows, and says how many there are.
const cell = (text, tone) => ({ text, tone })
const flagged = (value, tone) => cell(count(value), value > 0 ? tone : "")
const daysLeft = text => {
  const days = (Date.parse(text) / 1000 - serverNow()) / 86400
  if (!isFinite(days)) return cell("–")
  return days < 0 ? cell("✖ expired", "bad") : days < 7 ? cell(`▲ ${count(days)} days`, "warn") : cell(`${Math.floor(days)} days`)
}
const stateCell = (text, good) => good.includes(text) ? cell(`✓ ${text}`, "good") : cell(`▲ ${text}`, "warn")
const sinkRow = sink => [
  sink.sink, stateCell(printable(sink.state), ["caught up", "loading"]), seconds(sink.lag_seconds), count(sink.lag_records), count(sink.rows),
  flagged(sink.rejects, "warn"), count(sink.duplicates), flagged(sink.in_gaps, "bad"), sink.last_error || "",
]
const backendRow = backend => {
  const addresses = list(backend.addresses)
  const working = addresses.filter(address => !["open", "half-open", "unreachable"].includes(address.state)).length
  return [
    backend.backend, stateCell(addresses.length ? printable(backend.breaker) : "no address", ["closed", "untried"]),
    `${working} of ${addresses.length}`, perSecond(rates.of(`backend ${backend.backend}`)), count(backend.in_flight), count(backend.queued),
    count(backend.requests), count(backend.failures), count(backend.refusals), count(backend.retries),
  ]
}
const routeRow = route => [
  [route.methods, route.host, route.path].map(printable).join(" ").trim(), perSecond(route.requests_per_second),
  cell(perSecond(route.failures_per_second), route.failures_per_second > 0 ? "bad" : ""), seconds(route.p50_seconds), seconds(route.p99_seconds),
  count(number(route["2xx"]) + number(route["3xx"])), count(route["4xx"]), count(route["5xx"]), count(route.refused), count(route.script_failures),
]
const requestRows = doc => doc.requests && [
  ["answered", perSecond(doc.rates.requests), count(CLASSES.reduce((sum, name) => sum + number(doc.requests[name]), 0))],
  ...CLASSES.slice(1).map(name => [name, perSecond(rates.of(name)), cell(count(doc.requests[name]), name === "5xx" && rates.of(name) > 0 ? "bad" : "")]),
  ["malformed", "", count(doc.requests.malformed)],
]
const refusalRows = doc => [["refusals", ""], ["unconfirmed", "unconfirmed: "]].flatMap(([key, prefix]) => entries(doc[key])
  .filter(([, value]) => value > 0)
  .sort((one, other) => other[1] - one[1])
  .map(([name, value]) => [prefix + name.replaceAll("_", " "), prefix ? "" : perSecond(rates.of(`refused ${name}`)), count(value)]))
const logRows = doc => {
  const log = doc.log
  if (!log) return null
  return [
    ["failure", log.failure ? cell(`✖ ${printable(log.failure)}`, "bad") : "none"],
    ["sync p50, p99", doc.latency.sync ? `${seconds(doc.latency.sync.p50_seconds)}, ${seconds(doc.latency.sync.p99_seconds)}` : "–"],
    ["written", `${perSecond(doc.rates.records).replace("/s", " records/s")}, ${bytesPerSecond(doc.rates.log_bytes)}`],
    ["oldest unsynced", seconds(log.unsynced_seconds)],
    ["write queue", `${bytes(log.queued_bytes)} of ${bytes(log.queue_bytes_max)}`],
    ["free disk", log.is_short_of_room ? cell(`✖ ${bytes(log.free_bytes)}, too little`, "bad") : bytes(log.free_bytes)],
    ["time until the reserve", isKnown(log.reserve_reached_seconds) ? seconds(log.reserve_reached_seconds) : "not in sight"],
    ["reserve", bytes(log.reserve_bytes)],
    ["segments", `${count(log.segments)}, ${bytes(log.segments_bytes)}`],
    ["damaged segments", log.segments_damaged > 0 ? cell(`✖ ${count(log.segments_damaged)}`, "bad") : "0"],
    ["records since the start", count(log.records)],
  ]
}
const processRows = doc => {
  const [config, process] = [doc.config || {}, doc.process || {}]
  return [
    ["version", doc.version], ["running for", seconds(doc.uptime_seconds)], ["process", printable(doc.process_id)],
    ["configuration", `${printable(config.source)}, version ${printable(config.version)}`], ["digest", config.digest || "–"],
    ["last reload", config.loaded_at ? dateTime(config.loaded_at) : "–"],
    ["reloads", config.reloads_refused > 0 ? `${count(config.reloads_done)}, refused ${count(config.reloads_refused)}` : count(config.reloads_done)],
    ["memory", bytes(process.resident_bytes)], ["descriptors", `${count(process.descriptors)} of ${count(process.descriptors_max)}`],
    ["threads", count(process.threads)], ["processor time", seconds(process.cpu_seconds)],
  ]
}
const workerRow = (worker, at) => [
  String(at), count(worker.connections), seconds(worker.turn_p99_seconds), seconds(worker.silence_seconds), count(worker.scripts_queued),
  bytes(worker.script_bytes), worker.refused_share > 0 ? cell(share(worker.refused_share), "warn") : "0 %",
]
const shipRow = ship => [
  ship.ship, stateCell(printable(ship.state).replaceAll("_", " "), ["caught up", "shipping"]), seconds(ship.behind_seconds), count(ship.unshipped_segments),
  bytes(ship.unshipped_bytes), count(ship.segments), count(ship.errors), ship.last_error || "",
]
const certificateRow = certificate => [
  certificate.name, printable(certificate.state).replaceAll("_", " "), daysLeft(certificate.expires_at),
  certificate.expires_at ? dateTime(certificate.expires_at) : "–", certificate.next_order_at ? dateTime(certificate.next_order_at) : "–", certificate.reason || "",
]
const fetchRows = doc => doc.fetch && [
  ["store", doc.fetch.store], ["state", doc.fetch.state], ["late", seconds(doc.fetch.behind_seconds)], ["logs", count(doc.fetch.log_count)],
  ["machines", `${count(doc.fetch.node_count)}, silent ${count(doc.fetch.silent_nodes)}`], ["last error", doc.fetch.last_error || "none"],
  ["logs with a missing segment", count(doc.fetch.missing_logs)], ["logs with a damaged segment", count(doc.fetch.damaged_logs)],
]
const rejectRows = doc => list(doc.sinks).flatMap(sink => [
  ...entries(sink.rejecting_streams).map(([stream, recent]) => [sink.sink, stream, `${plural(number(recent.rejects), "reject")} and ${plural(number(recent.rows), "row")} within ${seconds(recent.seconds)}`]),
  ...entries(sink.stopped_logs).map(([log, reason]) => [sink.sink, log, reason]),
])
const noteRows = doc => list(doc.sinks).flatMap(sink => list(sink.notes).map(note => [sink.sink, note]))
const lineRows = doc => list(doc.recent_lines).slice(-20).reverse().map(line => [
  dateTime(line.at), line.level === "error" ? cell("✖ error", "bad") : cell("▲ warn", "warn"), line.text,
])
// Columns that begin with `<` hold text.
const TABLES = [
  { id: "routes", title: "Routes", wide: true, max: 20, head: ["<route", "rate", "failed", "p50", "p99", "2xx, 3xx", "4xx", "5xx", "refused", "script failures"], rows: doc => doc.routes && doc.routes.map(routeRow), there: doc => doc.route_count, rest: "/status has 100 routes, /metrics has all" },
  { id: "sinks", title: "Sinks", wide: true, max: 20, head: ["<sink", "<state", "lag", "pending", "rows", "rejects", "duplicates", "in gaps", "<last error"], rows: doc => list(doc.sinks).map(sinkRow) },
  { id: "notes", title: "Rows that may appear twice", wide: true, max: 20, head: ["<sink", "<note"], rows: noteRows },
  { id: "stops", title: "Rejecting streams and stopped logs", wide: true, max: 20, head: ["<sink", "<stream or log", "<reason"], rows: rejectRows },
  { id: "backends", title: "Backends", wide: true, max: 20, head: ["<backend", "<breaker", "addresses", "rate", "in flight", "queued", "requests", "failures", "refusals", "retries"], rows: doc => list(doc.backends).map(backendRow) },
  { id: "clients", title: "Requests by class", max: 9, head: ["<class", "now", "since the start"], rows: requestRows },
  { id: "refusals", title: "Refusals by reason", max: 20, head: ["<reason", "now", "since the start"], rows: refusalRows, none: "No request was refused since the start." },
  { id: "log", title: "Log", max: 20, head: ["<", "<"], rows: logRows },
  { id: "process", title: "Server", max: 20, head: ["<", "<"], rows: processRows },
  { id: "ships", title: "Ships", wide: true, max: 20, head: ["<ship", "<state", "late", "segments left", "bytes left", "shipped", "errors", "<last error"], rows: doc => list(doc.ships).map(shipRow) },
  { id: "certificates", title: "Certificates", wide: true, max: 20, head: ["<name", "<state", "left", "<expires", "<next order", "<reason"], rows: doc => list(doc.certificates).map(certificateRow) },
  { id: "fetch", title: "Fetched from the store", max: 20, head: ["<", "<"], rows: fetchRows },
  { id: "workers", title: "Workers", wide: true, max: 20, head: ["<worker", "connections", "turn p99", "last turn", "script queue", "script memory", "refuses"], rows: doc => list(doc.workers).map(workerRow) },
  { id: "lines", title: "Last warnings of the log lines", wide: true, max: 20, head: ["<time", "<level", "<text"], rows: lineRows },
]
const isText = name => name[0] === "<"
const buildTable = table => {
  const head = table.head.map(name => make("th", isText(name) ? "text" : "", name.replace("<", "")))
  head.forEach(column => column.scope = "col")
  table.body = make("tbody")
  table.more = make("p", "more")
  const hasHead = table.head.some(name => name !== "<")
  const shown = make("table", "", ...(hasHead ? [make("thead", "", make("tr", "", ...head))] : []), table.body)
  table.title_ = make("h2", "", table.title)
  table.scroll = make("div", "scroll", shown)
  table.element = make("div", table.wide ? "wide" : "", table.title_, table.scroll, table.more)
  table.element.id = table.id
  table.element.tabIndex = -1
  shown.setAttribute("aria-label", table.title)
  one("tables").append(table.element)
}
const showTable = (table, doc) => {
  const rows = table.rows(doc)
  const isEmpty = !rows || !rows.length
  table.element.hidden = isEmpty && !(rows && table.none)
  if (table.element.hidden) return
  const there = table.there ? number(table.there(doc)) : rows.length
  const shown = rows.slice(0, table.max)
  say(table.title_, there > table.max ? `${table.title} (${count(shown.length)} of ${count(there)})` : table.title)
  say(table.more, isEmpty ? table.none : there > shown.length ? `${count(there - shown.length)} more${table.rest ? `: ${table.rest}` : ""}.` : "")
  table.more.hidden = !table.more.textContent
  table.scroll.hidden = isEmpty
  // A region that scrolls must be reachable by keyboard.
  const scrolls = table.scroll.scrollWidth > table.scroll.clientWidth
  scrolls ? set(table.scroll, "tabindex", 0) : table.scroll.removeAttribute("tabindex")
  resize(table.body, shown.length, () => make("tr", "", ...table.head.map(() => make("td"))))
  shown.forEach((row, at) => row.forEach((value, column) => {
    const element = table.body.children[at].children[column]
    const { text, tone } = value && typeof value === "object" ? value : { text: value, tone: "" }
    say(element, text)
    dress(element, [isText(table.head[column]) ? "text" : "", tone].filter(Boolean).join(" "))
  }))
}
const showTables = doc => TABLES.forEach(table => showTable(table, doc))
