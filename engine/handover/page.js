// Draws the report of this file: sections of blocks, each by its kind. Every text is untrusted and is written as text.

const MOST_VIEWS = 8; // a browser has sixteen WebGL contexts
const SIGNS = { junk: "!", cut: "cut", wrong: "✗" };
const NO_3D = "This file was made without 3Dmol.js, so molecules are drawn in 2D alone. `make prepare` brings it.";
const NO_WEBGL = "The 3D view needs WebGL, which this browser does not offer.";
const BLOCKS = { text, note, code, table, chart, tokens, molecule };
const shownIn3d = []; // molecules whose 3D view is there, the oldest first
let isPrinted = false;

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== "") element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function made(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

// Blocks ----------------------------------------------------------------------------------------------------------------

function blocks(parts) {
  return parts.map(([kind, view]) => BLOCKS[kind](view));
}

function text(words) {
  const [lead, ...notes] = words.split("\n\n");
  return made("div", {}, made("p", { class: "answer" }, lead), ...notes.map((part) => made("p", { class: "answer note" }, part)));
}

function note(words) {
  return made("p", { class: "note" }, words);
}

function code(words) {
  return made("code", {}, words);
}

// `rows` of atoms say which atom, and what is wrong with it.
function table({ name, titles, helps, values, words, rows_left_out, rows = [] }) {
  const heads = titles.map((title, place) => made("th", { title: helps[place] ?? "" }, title));
  const body = words.map((cells, row) => {
    const [atom, damage] = rows[row] ?? ["", ""];
    const boxes = cells.map((word, place) => {
      const value = values[row][place];
      if (typeof value === "number") return made("td", { class: "figure", title: String(value) }, word);
      return made("td", { class: word.length > 40 ? "long" : "" }, word);
    });
    return made("tr", { class: damage, "data-atom": atom ?? "" }, ...boxes);
  });
  const drawing = made("table", {}, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...body));
  if (name) drawing.prepend(made("caption", {}, name));
  const more = rows_left_out ? [note(`${rows_left_out} more rows are not in this file.`)] : [];
  return made("div", {}, made("div", { class: "scroll", tabindex: 0 }, drawing), ...more);
}

function tokens(list) {
  const spans = list.map(([piece, marks, atom, about]) => {
    const look = [...marks].map((mark) => `t-${mark}`).join(" ");
    return made("span", { class: look, title: about, "data-atom": atom ?? "" }, piece);
  });
  return made("div", { class: "text", tabindex: 0 }, ...spans);
}

// Molecules -------------------------------------------------------------------------------------------------------------

function molecule({ name, smiles, drawing, conformer, left_out, parts }) {
  const card = made("details", { class: "molecule" });
  const space = made("div", { class: "space", tabindex: 0 });
  // The wheel scrolls the page until a reader has clicked into the view.
  space.addEventListener("pointerdown", () => space.focus({ preventScroll: true }));
  space.addEventListener("wheel", (event) => space.matches(":focus") || event.stopPropagation(), { capture: true });
  const left = made("div", {}, ...flat(drawing), ...(conformer ? [space] : []), ...left_out.map(note));
  const head = made("summary", {}, made("b", {}, name), " ", made("span", { class: "smiles" }, smiles));
  card.append(head, made("div", { class: "views" }, left, made("div", {}, ...blocks(parts))));
  card.addEventListener("click", (event) => {
    const at = event.target.closest("[data-atom]");
    if (at) pick(card, Number(at.dataset.atom));
  });
  card.addEventListener("toggle", () => {
    if (card.open && conformer && !isPrinted) show3d(card, space, conformer);
    if (!card.open) drop(card, space);
  });
  return card;
}

// RDKit's drawing. Its inline styles, which the policy forbids in a text, are set by script.
function flat(drawing) {
  if (!drawing) return [];
  const svg = document.importNode(new DOMParser().parseFromString(drawing, "image/svg+xml").documentElement, true);
  for (const element of svg.querySelectorAll("[data-style]")) element.style.cssText = element.dataset.style;
  return [made("div", { class: "drawing" }, svg)];
}

function pick(card, atom) {
  for (const element of card.querySelectorAll("[data-atom]")) {
    element.classList.toggle("picked", element.dataset.atom === String(atom));
  }
  card.querySelector("tr.picked")?.scrollIntoView({ block: "nearest" });
  card.halo?.(atom);
}

function colour(name) {
  document.body.style.caretColor = `var(--${name})`; // which the browser makes a colour of
  return getComputedStyle(document.body).caretColor;
}

// A view a molecule, while its card is open; of too many open ones the oldest is closed.
function show3d(card, space, { block, atoms, marks, by_group }) {
  const viewer = window.$3Dmol && window.WebGLRenderingContext ? $3Dmol.createViewer(space, { backgroundAlpha: 0 }) : null;
  if (!viewer) return space.replaceChildren(window.$3Dmol ? NO_WEBGL : NO_3D);
  const hues = { colorscheme: { prop: "elem", map: { C: colour("muted"), N: colour("nitrogen") } } };
  const spots = viewer.addModel(block, "sdf").selectedAtoms({});
  viewer.setStyle({ model: 0 }, { stick: { radius: 0.14, ...hues }, sphere: { scale: 0.25, ...hues } });
  const grey = { stick: { radius: 0.11, opacity: 0.6, color: colour("neutral") } };
  if (by_group) viewer.addModel(by_group, "sdf").setStyle({}, grey);
  const ball = (place, radius, hue) => {
    const { x, y, z } = spots[place];
    return viewer.addSphere({ center: { x, y, z }, radius, color: colour(hue), opacity: 0.6 });
  };
  for (const [atom, fault] of Object.entries(marks)) {
    const place = atoms.indexOf(Number(atom));
    if (place < 0) continue;
    ball(place, 0.6, fault);
    const look = { backgroundColor: colour(fault), fontColor: fault === "junk" ? "#ffffff" : "#0f171a", fontSize: 13 };
    viewer.addLabel(SIGNS[fault], { position: spots[place], screenOffset: { x: 18, y: 18 }, inFront: true, ...look });
  }
  viewer.setClickable({ model: 0 }, true, (atom) => pick(card, atoms[atom.index]));
  let ring = null;
  card.halo = (atom) => {
    if (ring) viewer.removeShape(ring);
    ring = atoms.includes(atom) ? ball(atoms.indexOf(atom), 0.75, "accent") : null;
    viewer.render();
  };
  viewer.zoomTo();
  viewer.zoom(1.2);
  viewer.render();
  if (shownIn3d.push(card) > MOST_VIEWS) shownIn3d[0].open = false;
}

function drop(card, space) {
  if (shownIn3d.includes(card)) shownIn3d.splice(shownIn3d.indexOf(card), 1);
  space.querySelector("canvas")?.getContext("webgl2")?.getExtension("WEBGL_lose_context")?.loseContext();
  space.replaceChildren();
  card.halo = undefined;
}

// The whole page --------------------------------------------------------------------------------------------------------

const report = JSON.parse(document.getElementById("bundle").textContent);
const links = report.sections.map(({ title }, place) => made("a", { href: `#section-${place}` }, title));
const sections = report.sections.map(({ title, about, parts }, place) =>
  made("section", {}, made("h2", { id: `section-${place}`, title: about }, title), ...blocks(parts)),
);
document.title = `${report.title} · Driftscope`;
document.querySelector("footer pre").textContent = report.licence;
document.querySelector("main").append(made("h1", {}, report.title), made("nav", {}, ...links), ...sections);
addEventListener("load", () => document.querySelector(".molecule")?.setAttribute("open", ""));
addEventListener("beforeprint", () => {
  isPrinted = true; // without 3D views
  for (const card of document.querySelectorAll(".molecule")) card.open = true;
});
addEventListener("afterprint", () => (isPrinted = false));
