// A beacon leaves also when the page goes away. The id makes it safe that it may come twice.
const send = (kind, detail) =>
  navigator.sendBeacon("/events", JSON.stringify({ id: crypto.randomUUID(), kind, page: location.pathname, detail }))

const began = performance.now()
document.querySelector("button").addEventListener("click", ({ clientX, clientY }) => send("click", { x: clientX, y: clientY }))
addEventListener("pagehide", () => send("leave", { seconds: Math.round(performance.now() - began) / 1000 }))
