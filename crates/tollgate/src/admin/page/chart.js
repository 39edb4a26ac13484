// The charts. A chart is one SVG of up to 300 columns. A column shows the largest value of its steps.
const RANGES = [["10 minutes", "fine", 600], ["1 hour", "coarse", 360], ["24 hours", "coarse", 8640]]
const COLUMNS = 300
const HEIGHT = 92
let range = RANGES[0]
let cursor = null

const CHARTS = [
  { title: "Requests", form: perSecond, lines: [["requests", "all"], ["client_errors", "4xx"], ["failures", "5xx"], ["refusals", "refused"]] },
  { title: "Latency of requests", form: seconds, lines: [["p50_seconds", "p50"], ["p99_seconds", "p99"]], extra: doc => ["p99.9", doc.latency && doc.latency.p999_seconds] },
  { title: "Sync of the log", form: seconds, lines: [["sync_p99_seconds", "p99"], ["unsynced_seconds", "oldest unsynced"]] },
  { title: "Written to the log", form: bytesPerSecond, lines: [["log_bytes", "bytes"]] },
  { title: "Load lag", form: seconds, lines: [["lag_seconds", "lag"]], note: () => lagTrend() },
  { title: "Rows", form: perSecond, lines: [["rows", "loaded"], ["rejects", "rejects"]] },
  { title: "Free disk of the log", form: bytes, lines: [["free_bytes", "free"]], isLow: true, note: doc => untilReserve(doc) },
  { title: "Processor", form: value => isKnown(value) ? `${value.toFixed(2)} cores` : "–", lines: [["cpu_share", "used"]] },
  { title: "Memory", form: bytes, lines: [["resident_bytes", "resident"]] },
]

const lagTrend = () => {
  const slope = slopeOf("lag_seconds", 60)
  const lag = history.fine.values.lag_seconds.at(-1)
  if (!isKnown(slope) || !isKnown(lag)) return ""
  if (slope > .05) return "▲ rising"
  if (slope < -.05) return `▼ falling, gone in about ${seconds(lag / -slope)}`
  return lag > 1 ? "steady" : "not growing"
}
const untilReserve = doc => {
  const log = doc.log || {}
  if (isKnown(log.free_bytes) && log.free_bytes <= log.reserve_bytes) return `below the reserve of ${bytes(log.reserve_bytes)}`
  const left = log.reserve_reached_seconds
  return isKnown(left) ? `reserve reached in ${seconds(left)}` : `reserve ${bytes(log.reserve_bytes)}`
}

const columnsOf = (name, isLow) => {
  const [, grain, cells] = range
  const values = history[grain].values[name].slice(-cells)
  const width = cells / COLUMNS
  const columns = []
  for (let at = 0; at < COLUMNS; at += 1) {
    let found = NaN
    for (let cell = Math.floor(at * width); cell < Math.max(Math.floor(at * width) + 1, Math.floor((at + 1) * width)); cell += 1) {
      const value = values[cell]
      if (isKnown(value) && !(isLow ? found <= value : found >= value)) found = value
    }
    columns.push(found)
  }
  return columns
}
const topOf = (value, isBytes) => {
  if (!(value > 0)) return 1
  const kilo = isBytes ? 1024 ** Math.floor(Math.log2(value) / 10) : 1
  if (kilo > 1) return topOf(value / kilo) * kilo
  const unit = 10 ** Math.floor(Math.log10(value))
  return [1, 1.5, 2, 3, 5, 7.5, 10].find(step => step * unit >= value) * unit
}
const pathOf = (columns, top, isFilled) => {
  let [text, from] = ["", -1]
  const y = value => (HEIGHT - 1 - value / top * (HEIGHT - 6)).toFixed(1)
  columns.forEach((value, at) => {
    if (isKnown(value)) {
      text += `${from < 0 ? "M" : "L"}${at} ${y(value)}`
      if (from < 0) { from = at; if (!isKnown(columns[at + 1])) text += `L${at + .5} ${y(value)}` }
    }
    if (from >= 0 && (!isKnown(value) || at === COLUMNS - 1)) {
      if (isFilled) text += `L${isKnown(value) ? at : at - 1} ${HEIGHT}L${from} ${HEIGHT}Z`
      from = -1
    }
  })
  return text
}

const charts = CHARTS.map(spec => {
  const lines = spec.lines.map((_, at) => draw("path", { class: `c${at + 1}` }))
  const fill = draw("path", { class: "fill" })
  const mark = draw("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" })
  const svg = draw("svg", { viewBox: `0 0 ${COLUMNS - 1} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: 0 }, fill, ...lines, mark)
  const [top, none] = [make("span"), make("span", "none", "no value yet")]
  const keys = spec.lines.map(([, label], at) => {
    const value = make("b")
    const sign = draw("svg", { viewBox: "0 0 20 8", "aria-hidden": true }, draw("line", { class: `c${at + 1}`, x1: 0, x2: 20, y1: 4, y2: 4 }))
    return { value, element: make("span", "", sign, `${label} `, value) }
  })
  const note = make("span")
  const [begin, end] = [make("span"), make("span")]
  const plot = make("div", "plot", svg, top, none)
  const element = make("figure", "", make("figcaption", "", spec.title), make("div", "keys", ...keys.map(key => key.element), note), plot, make("div", "times", begin, end))
  svg.addEventListener("pointermove", event => moveCursor(Math.round(event.offsetX / svg.clientWidth * (COLUMNS - 1))))
  svg.addEventListener("pointerleave", () => moveCursor(null))
  svg.addEventListener("blur", () => moveCursor(null))
  svg.addEventListener("keydown", event => {
    const step = { ArrowLeft: -3, ArrowRight: 3 }[event.key]
    if (step) { event.preventDefault(); moveCursor(Math.min(COLUMNS - 1, Math.max(0, (cursor ?? COLUMNS - 1) + step))) }
    if (event.key === "Escape") moveCursor(null)
  })
  return { spec, lines, fill, mark, svg, top, none, keys, note, begin, end, element }
})
const showChart = (chart, doc) => {
  const { spec } = chart
  const [, grain, cells] = range
  const { step, end } = history[grain]
  const all = spec.lines.map(([name]) => columnsOf(name, spec.isLow))
  const most = Math.max(0, ...all.flat().filter(isKnown))
  const top = topOf(most, spec.form === bytes || spec.form === bytesPerSecond)
  all.forEach((columns, at) => set(chart.lines[at], "d", pathOf(columns, top, false)))
  set(chart.fill, "d", pathOf(all[0], top, true))
  say(chart.top, spec.form(top))
  chart.none.hidden = all.some(columns => columns.some(isKnown))
  chart.top.hidden = !chart.none.hidden
  const shown = all.map((columns, at) => spec.form(cursor === null ? history.fine.values[spec.lines[at][0]].at(-1) : columns[cursor]))
  chart.keys.forEach((key, at) => say(key.value, shown[at]))
  const extra = spec.extra && isKnown(spec.extra(doc)[1]) ? `${spec.extra(doc)[0]} ${spec.form(spec.extra(doc)[1])}` : ""
  const from = end - step * cells
  const time = cursor === null ? null : from + (cursor + 1) / COLUMNS * cells * step
  say(chart.note, time === null ? extra || (spec.note ? spec.note(doc) : "") : `at ${clockTime(time, grain === "fine")}`)
  set(chart.mark, "visibility", cursor === null ? "hidden" : "visible")
  if (cursor !== null) { set(chart.mark, "x1", cursor); set(chart.mark, "x2", cursor) }
  say(chart.begin, clockTime(from, grain === "fine"))
  say(chart.end, "now")
  const words = spec.lines.map(([, label], at) => `${label} ${shown[at]}`).join(", ")
  set(chart.svg, "aria-label", `${spec.title}, last ${range[0]}: ${words}. Arrow keys read earlier values.`)
}
const showCharts = doc => charts.forEach(chart => showChart(chart, doc))
const moveCursor = at => {
  cursor = at
  if (latest) showCharts(latest)
}
