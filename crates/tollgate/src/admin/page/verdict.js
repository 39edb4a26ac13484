// The sentence of the state: the worst finding and its remedy, or the rates if all is well.
const TONES = {
  good: ["✓", "All well"], warn: ["▲", "Warning"], bad: ["✖", "Not ready"], gone: ["?", "No answer"],
}
const findingsOf = doc => [
  ...list(doc.reasons).map(finding => ({ ...finding, tone: "bad" })),
  ...list(doc.warnings).map(finding => ({ ...finding, tone: "warn" })),
]
const FINDINGS_MAX = 12

const wellSentence = doc => {
  const rate = number(doc.rates && doc.rates.requests)
  const sinks = list(doc.sinks)
  const lag = largest(sinks, "lag_seconds")
  const load = !sinks.length ? "" : lag < 1 ? ", and each record is loaded within a second" : `, and the load is ${seconds(lag)} late`
  if (doc.fetch) return `All well. The process loads the records of ${plural(number(doc.fetch.node_count), "machine")}${load}.`
  if (doc.topics) return `All well. The process loads topics of ${doc.topics.brokers}${load}.`
  if (doc.phase && doc.phase !== "serving") return `The server is ${doc.phase}.`
  const rejected = rates.of("rejects")
  const rejects = rejected > .05 ? ` Rejects: ${perSecond(rejected)}.` : ""
  if (rate < .05) return "All well. No request came within the last 10 seconds."
  return `All well: ${short(rate)} requests per second${load}.${rejects}`
}
const showVerdict = (doc, isAnswering) => {
  const findings = findingsOf(doc)
  const worst = findings[0]
  const tone = !isAnswering ? "gone" : worst ? worst.tone : doc.ready === false ? "bad" : "good"
  const [sign, word] = TONES[tone]
  dress(one("verdict"), tone)
  say(one("sign"), sign)
  const told = worst ? `${TONES[worst.tone][1]}: ${worst.text}` : wellSentence(doc)
  say(one("sentence"), isAnswering ? told : "The server does not answer.")
  const remedy = worst && worst.advice ? `What to do: ${worst.advice}.` : ""
  say(one("remedy"), isAnswering ? remedy : "Below is its last state. Check that the process runs, and that the network reaches it.")
  const more = isAnswering ? findings.slice(1, FINDINGS_MAX) : []
  resize(one("findings"), more.length, () => make("li", "", make("b"), make("i"), make("span")))
  more.forEach((finding, at) => {
    const [mark, text, advice] = one("findings").children[at].children
    dress(one("findings").children[at], finding.tone)
    say(mark, `${TONES[finding.tone][0]} ${TONES[finding.tone][1]}: `)
    say(text, finding.text)
    say(advice, `What to do: ${finding.advice}.`)
  })
  const title = `${sign} ${word} – Tollgate`
  if (document.title !== title) {
    document.title = title
    const fill = { good: "%23177245", warn: "%23d99000", bad: "%23c01f2e", gone: "%23777" }[tone]
    one("icon").href = `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='4' fill='${fill}'/%3E%3C/svg%3E`
  }
}
