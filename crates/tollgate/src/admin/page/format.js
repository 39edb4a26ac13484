// Numbers, durations and texts for people.
const number = value => typeof value === "number" && isFinite(value) ? value : 0
const isKnown = value => typeof value === "number" && isFinite(value)
const list = value => Array.isArray(value) ? value : []
const entries = value => value && typeof value === "object" ? Object.entries(value) : []

// Peers and clients may have written parts of a text. Characters that control a terminal or the direction of
// writing become visible.
const printable = value => value === null || value === undefined ? ""
  : String(value).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd")

const count = value => {
  if (!isKnown(value)) return "–"
  if (value !== 0 && Math.abs(value) < 10 && value % 1) return value.toFixed(1)
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f")
}
const short = value => {
  if (!isKnown(value)) return "–"
  const units = [[1e9, "G"], [1e6, "M"], [1e4, "k"]]
  for (const [unit, name] of units) if (value >= unit) return `${(value / (unit === 1e4 ? 1e3 : unit)).toPrecision(3)}${name}`
  return count(value)
}
const perSecond = value => isKnown(value) ? `${short(value)}/s` : "–"
const bytes = value => {
  if (!isKnown(value)) return "–"
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
  let at = 0
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1 }
  return `${at && value < 100 ? value.toPrecision(3) : Math.round(value)} ${units[at]}`
}
const bytesPerSecond = value => isKnown(value) ? `${bytes(value)}/s` : "–"
const seconds = value => {
  if (!isKnown(value)) return "–"
  if (value === 0) return "0 s"
  if (value < 1e-3) return `${(value * 1e6).toPrecision(3)} µs`
  if (value < 1) return `${(value * 1e3).toPrecision(3)} ms`
  if (value < 120) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`
  if (value < 7200) return `${Math.round(value / 60)} min`
  if (value < 172800) return `${Math.round(value / 3600)} h`
  return `${Math.round(value / 86400)} d`
}
const share = value => isKnown(value) ? `${(value * 100).toFixed(value < .1 ? 1 : 0)} %` : "–"
const plural = (value, thing) => `${count(value)} ${thing}${value === 1 ? "" : "s"}`

const pad = value => String(value).padStart(2, "0")
const clockTime = (unix, withSeconds) => {
  const at = new Date(unix * 1000)
  return `${pad(at.getHours())}:${pad(at.getMinutes())}${withSeconds ? `:${pad(at.getSeconds())}` : ""}`
}
const dateTime = text => {
  const unix = Date.parse(text) / 1000
  if (!isFinite(unix)) return printable(text)
  const at = new Date(unix * 1000)
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clockTime(unix, true)}`
}
const zone = () => {
  const minutes = -new Date().getTimezoneOffset()
  const size = Math.abs(minutes)
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time"
  if (name === "UTC") return name
  return `${name}, UTC${minutes < 0 ? "−" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`
}
