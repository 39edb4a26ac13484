const list = document.querySelector("ol")
const form = document.querySelector("form")

// A browser that loses the connection connects again by itself, and gets the messages that it missed.
const source = new EventSource("/events")
const state = document.querySelector("output")
source.addEventListener("open", () => { state.value = "listening" })
source.addEventListener("error", () => { state.value = "connecting" })
source.addEventListener("message", ({ data }) => {
  const line = document.createElement("li")
  line.textContent = data
  list.append(line)
})

form.addEventListener("submit", async submitted => {
  submitted.preventDefault()
  const said = await fetch("/messages", { method: "POST", body: new URLSearchParams(new FormData(form)) })
  if (said.ok) form.reset()
})
