// An SVG text as elements of this page, node by node: only what is listed here comes over. No script, no handler, no
// link and no address anywhere, whatever the text holds.

const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set("svg g path ellipse circle rect line polyline polygon text tspan".split(" "));
const ATTRIBUTES = new Set(
  ("class d x y dx dy x1 y1 x2 y2 cx cy r rx ry points width height viewBox transform style fill stroke opacity " +
    "fill-opacity fill-rule stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-dasharray font-size " +
    "font-family font-weight text-anchor dominant-baseline data-atom").split(" "),
);
const REACHES_OUT = /url|image|import|expression|var\s*\(|[@\\]/i; // of a style: what could name an address

// The root element, or null when the text is not an SVG.
function safeSvg(text) {
  const read = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const isSvg = read.namespaceURI === SVG && read.localName === "svg" && !read.querySelector("parsererror");
  return isSvg ? safeNode(read) : null;
}

function safeNode(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE || node.namespaceURI !== SVG || !ELEMENTS.has(node.localName)) return null;
  const copy = newSvg(node.localName);
  for (const { name, value } of node.attributes) {
    if (ATTRIBUTES.has(name) && !(REACHES_OUT.test(value) && name !== "class")) copy.setAttribute(name, value);
  }
  for (const child of node.childNodes) copy.append(...[safeNode(child)].filter(Boolean));
  return copy;
}

function newSvg(name, attributes = {}) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
