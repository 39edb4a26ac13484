// The document. Every text becomes a text node, never markup.
const SVG = "http://www.w3.org/2000/svg"
const one = id => document.getElementById(id)
const make = (tag, kind, ...children) => {
  const element = document.createElement(tag)
  if (kind) element.className = kind
  element.append(...children)
  return element
}
const draw = (tag, attributes, ...children) => {
  const element = document.createElementNS(SVG, tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}
// Changes a text only if it differs. A reader's selection and a screen reader then keep their places.
const say = (element, text) => {
  const shown = printable(text)
  if (element.textContent !== shown) element.textContent = shown
}
const dress = (element, kind) => { if (element.className !== kind) element.className = kind }
const set = (element, name, value) => {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value)
}
// Makes `parent` have `size` children.
const resize = (parent, size, build) => {
  while (parent.children.length > size) parent.lastChild.remove()
  while (parent.children.length < size) parent.append(build())
}
