fetch("/api/score?x=20").then(reply => reply.json()).then(({ score }) => {
  document.querySelector("output").value = score
})
