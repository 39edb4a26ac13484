// The path of a request and of its record: eight boxes, and arrows that are thicker if more flows.
const states = (items, name) => {
  const counts = {}
  for (const item of items) counts[item[name]] = (counts[item[name]] || 0) + 1
  return Object.entries(counts).map(([state, times]) => items.length > 1 ? `${times} ${state}` : state).join(", ")
}
// Each box: its name, the table below that it leads to, the codes of its findings, and its texts.
const BOXES = [
  ["listen", "Listen", "clients", /^(descriptors|certificate|dns_record|clock)/, doc => doc.connections && {
    main: `${short(number(doc.rates.connections))}/s`, small: ["connections", `${bytesPerSecond(doc.rates.received_bytes)} in`],
  }],
  ["connections", "Connections", "clients", /^(connections|memory)/, doc => doc.connections && {
    main: count(doc.connections.now), small: [`of ${count(doc.connections.max)}`, `${bytes(doc.connections.in_flight_bytes)} held`],
  }],
  ["route", "Route", "routes", /^(route|behind|reload|token_keys)/, doc => doc.requests && {
    main: `${short(number(doc.rates.requests))}/s`, small: ["requests", `${perSecond(doc.rates.refusals)} refused`],
  }],
  ["handler", "Handler", "routes", /^(worker|scripts)/, doc => doc.requests && {
    main: seconds(doc.latency.p99_seconds), small: ["p99 of requests", `${count(doc.requests.in_flight)} in flight`],
  }],
  ["backends", "Backends", "backends", /^backend/, doc => list(doc.backends).length > 0 && {
    main: `${short(backendRate(doc))}/s`, small: ["requests", `${states(doc.backends, "breaker")}`],
  }],
  ["log", "Log", "log", /^(log_(failed|gone|stalled|behind)|disk|segments)/, doc => doc.log && {
    main: seconds(doc.latency.sync && doc.latency.sync.p99_seconds), small: ["p99 of a sync", `${bytesPerSecond(doc.rates.log_bytes)} in`],
  }],
  ["load", "Load", "sinks", /^(sink_(behind|stalled|unattended)|log_(stopped|unmended)|fetch|node|ship|volume)/, doc => list(doc.sinks).length > 0 && {
    main: seconds(largest(doc.sinks, "lag_seconds")), small: ["lag", `${count(total(doc.sinks, "lag_records"))} pending`],
  }],
  ["sink", "Sink", "sinks", /^(sink_(failing|stopped|waiting|rejecting)|records)/, doc => list(doc.sinks).length > 0 && {
    main: `${short(number(doc.rates.rows))}/s`, small: ["rows", states(doc.sinks, "state")],
  }],
]
const backendRate = doc => list(doc.backends).reduce((sum, backend) => sum + number(rates.of(`backend ${backend.backend}`)), 0)
const ARROWS = {
  connections: doc => doc.rates.connections, route: doc => doc.rates.requests + doc.rates.refusals, handler: doc => doc.rates.requests,
  backends: backendRate, log: doc => doc.rates.records, load: doc => doc.rates.records, sink: doc => doc.rates.rows,
}
const path = {}

const buildBox = ([id, name, target]) => {
  const [sign, main, first, second, state] = [make("i"), make("strong"), make("small"), make("small"), make("em")]
  const box = make("a", "box", make("b", "", name, " ", sign), main, make("div", "", first, second, state))
  box.id = `box-${id}`
  box.href = `#${target}`
  // The fragment of the address may hold the token, so it stays as it is.
  box.addEventListener("click", event => {
    event.preventDefault()
    one(target).scrollIntoView()
    one(target).focus({ preventScroll: true })
  })
  path[id] = { box, sign, main, first, second, state }
  return box
}
const buildArrow = id => {
  const line = draw("line", { x1: 2, x2: 38, y1: 11, y2: 11 })
  const head = draw("path", { stroke: "none" })
  const rate = make("span")
  const arrow = make("div", "arrow", draw("svg", { viewBox: "0 0 50 22", "aria-hidden": true }, line, head), rate)
  path[id].arrow = { arrow, line, head, rate }
  return arrow
}
const buildPath = () => {
  for (const box of BOXES) {
    const built = buildBox(box)
    if (ARROWS[box[0]]) one("path").append(buildArrow(box[0]))
    one("path").append(built)
  }
  one("path").append(make("p", "legend", "✓ works   ▲ warning   ✖ fault   – not used here. An arrow is thicker if more flows. The number at an arrow is per second."))
}
const SIGNS = { good: "✓", warn: "▲", bad: "✖", gone: "–" }
const showBox = ([id, , , codes, texts], doc) => {
  const shown = texts(doc)
  const finding = findingsOf(doc).find(found => codes.test(found.code))
  const tone = finding ? finding.tone : shown ? "good" : "gone"
  const parts = path[id]
  dress(parts.box, `box ${tone}`)
  say(parts.sign, SIGNS[tone])
  set(parts.sign, "title", { good: "works", warn: "warning", bad: "fault", gone: "not used" }[tone])
  say(parts.main, shown ? shown.main : "–")
  say(parts.first, shown ? shown.small[0] : "not used here")
  say(parts.second, shown ? shown.small[1] : "")
  say(parts.state, finding ? finding.code.replaceAll("_", " ") : "")
  if (ARROWS[id]) showArrow(parts.arrow, shown ? number(ARROWS[id](doc)) : 0, id === "backends")
}
const showArrow = ({ arrow, line, head, rate }, value, isDown) => {
  const isStill = value < .05
  const width = isStill ? 1.5 : Math.min(13, 2 + 2.2 * Math.log10(1 + value))
  const half = Math.max(5, width / 2 + 3.5)
  set(line, "stroke-width", width.toFixed(1))
  set(head, "d", `M36 ${11 - half}L49 11L36 ${11 + half}Z`)
  dress(arrow, `arrow ${isStill ? "still" : "flows"}${isDown ? " down" : ""}`)
  say(rate, isStill ? "0" : short(value))
}
const showPath = doc => BOXES.forEach(box => showBox(box, doc))
