// The history: one value a second for ten minutes, and one in ten seconds for a day. The server sends what it
// has, then each poll appends one value.
const GRAINS = { fine: { step: 1, cells: 600 }, coarse: { step: 10, cells: 8640 } }
const NAMES = ["requests", "failures", "client_errors", "refusals", "connections_now", "in_flight", "received_bytes",
  "sent_bytes", "records", "log_bytes", "rows", "rejects", "p50_seconds", "p99_seconds", "sync_p99_seconds",
  "pending_records", "lag_seconds", "free_bytes", "unsynced_seconds", "script_queue_seconds", "cpu_share",
  "resident_bytes", "findings_reasons", "findings_warnings"]

class Grain {
  constructor({ step, cells }) {
    this.step = step
    this.cells = cells
    this.end = 0
    this.values = {}
    this.sums = {}
    for (const name of NAMES) this.values[name] = new Array(cells).fill(NaN)
  }
  // Moves the window so that its last step ends at `end`. The new steps are unknown.
  moveTo(end) {
    if (end <= this.end) return
    const steps = Math.min(this.cells, Math.round((end - this.end) / this.step))
    for (const name of NAMES) {
      const values = this.values[name]
      values.splice(0, steps)
      for (let at = 0; at < steps; at += 1) values.push(NaN)
    }
    this.end = end
    this.sums = {}
  }
  // Adds a value to the step of this time. The step has the mean of its values.
  add(now, sample) {
    this.moveTo(Math.ceil(now / this.step) * this.step)
    for (const name of NAMES) {
      const value = sample[name]
      if (!isKnown(value)) continue
      const sum = this.sums[name] ||= [0, 0]
      sum[0] += value
      sum[1] += 1
      this.values[name][this.cells - 1] = sum[0] / sum[1]
    }
  }
  merge(part) {
    if (!part || !isKnown(part.end)) return
    this.moveTo(part.end)
    const behind = Math.round((this.end - part.end) / this.step)
    for (const name of NAMES) {
      const values = list(part.values && part.values[name])
      for (let at = 0; at < values.length; at += 1) {
        const place = this.cells - behind - values.length + at
        if (place >= 0 && isKnown(values[at])) this.values[name][place] = values[at]
      }
    }
  }
}
const history = { fine: new Grain(GRAINS.fine), coarse: new Grain(GRAINS.coarse) }

// Rates of counters between polls, over up to ten seconds.
class Rates {
  constructor() { this.looks = [] }
  look(now, counters) {
    this.looks.push([now, counters])
    while (this.looks.length > 2 && now - this.looks[0][0] > 10) this.looks.shift()
  }
  forget() { this.looks = [] }
  of(name) {
    if (this.looks.length < 2) return NaN
    const [[then, before], [now, after]] = [this.looks[0], this.looks[this.looks.length - 1]]
    if (!isKnown(before[name]) || !isKnown(after[name]) || now <= then) return NaN
    return Math.max(0, after[name] - before[name]) / (now - then)
  }
}
const rates = new Rates()
const CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"]
const total = (items, name) => items.reduce((sum, item) => sum + number(item[name]), 0)
const largest = (items, name) => items.reduce((most, item) => Math.max(most, number(item[name])), 0)

const countersOf = doc => {
  const counters = { cpu: number(doc.process && doc.process.cpu_seconds), rejects: total(list(doc.sinks), "rejects") }
  for (const name of CLASSES) counters[name] = doc.requests ? number(doc.requests[name]) : NaN
  for (const [name, value] of entries(doc.refusals)) counters[`refused ${name}`] = value
  for (const backend of list(doc.backends)) counters[`backend ${backend.backend}`] = number(backend.requests)
  return counters
}
const sampleOf = doc => {
  const [rate, latency, log, sinks] = [doc.rates || {}, doc.latency || {}, doc.log || {}, list(doc.sinks)]
  return {
    ...rate, connections_now: doc.connections && doc.connections.now, in_flight: doc.requests && doc.requests.in_flight,
    client_errors: rates.of("4xx"), rejects: rates.of("rejects"), cpu_share: rates.of("cpu"),
    p50_seconds: latency.p50_seconds, p99_seconds: latency.p99_seconds,
    sync_p99_seconds: latency.sync && latency.sync.p99_seconds,
    pending_records: total(sinks, "lag_records"), lag_seconds: largest(sinks, "lag_seconds"),
    free_bytes: log.free_bytes, unsynced_seconds: log.unsynced_seconds,
    script_queue_seconds: largest(list(doc.workers), "script_queue_age_seconds"),
    resident_bytes: doc.process && doc.process.resident_bytes,
    findings_reasons: list(doc.reasons).length, findings_warnings: list(doc.warnings).length,
  }
}
// The slope of a series over its last known values, per second. `NaN`: too few are known.
const slopeOf = (name, cells) => {
  const values = history.fine.values[name].slice(-cells)
  const known = values.map((value, at) => [at, value]).filter(([, value]) => isKnown(value))
  if (known.length < 10) return NaN
  const mean = at => known.reduce((sum, pair) => sum + pair[at], 0) / known.length
  const [x, y] = [mean(0), mean(1)]
  const [over, under] = known.reduce(([a, b], [at, value]) => [a + (at - x) * (value - y), b + (at - x) ** 2], [0, 0])
  return under ? over / under : NaN
}
