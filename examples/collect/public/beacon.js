// A beacon is sent even if the page is closed. It may arrive twice, so each event has an id.
const send = (kind, detail) =>
  navigator.sendBeacon("/events", JSON.stringify({ id: crypto.randomUUID(), kind, page: location.pathname, detail }))

const began = performance.now()
document.querySelector("button").addEventListener("click", ({ clientX, clientY }) => send("click", { x: clientX, y: clientY }))
addEventListener("pagehide", () => send("leave", { seconds: Math.round(performance.now() - began) / 1000 }))
