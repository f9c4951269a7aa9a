// Draws the bundle of this file. Every text of it is untrusted and is written as text; SVGs are the writer's own.

const SVG = "http://www.w3.org/2000/svg";
const MOST_VIEWS = 8; // a browser has sixteen WebGL contexts
const SIGNS = { junk: "!", cut: "cut", wrong: "✗" };
const LEGEND = "Grey: forced by the LP. Red: junk. Orange: the last before a cut. Underlined: the token that lost it; dotted: rare.";
const bundle = JSON.parse(document.getElementById("bundle").textContent);
const shownIn3d = []; // molecules whose 3D view is there, the oldest first
let isPrinted = false;

function made(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function svg(text) {
  return document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
}

function note(text) {
  return made("p", { class: "note" }, text);
}

function answer(text) {
  const [lead, ...notes] = text.split("\n\n");
  return [made("p", { class: "answer" }, lead), ...notes.map((part) => made("p", { class: "answer note" }, part))];
}

// Answers ---------------------------------------------------------------------------------------------------------------

function table(view, rowOf = () => ({})) {
  const heads = view.titles.map((title, place) => made("th", { title: view.helps[place] }, title));
  const rows = view.words.map((words, row) => {
    const cells = words.map((word, place) => {
      const value = view.values[row][place];
      const isFigure = typeof value === "number";
      const look = word.length > 40 ? "long" : "";
      return made("td", { class: isFigure ? "figure" : look, title: isFigure ? String(value) : "" }, word);
    });
    return made("tr", rowOf(row), ...cells);
  });
  const drawn = made("table", {}, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...rows));
  if (!["main", "atoms"].includes(view.name)) drawn.prepend(made("caption", {}, view.name));
  const more = view.rows_left_out ? [note(`${view.rows_left_out} more rows are not in this file.`)] : [];
  return made("div", {}, made("div", { class: "scroll", tabindex: 0 }, drawn), ...more);
}

function chart(view) {
  const panels = view.panels.map(([title, drawing]) => made("div", {}, made("figcaption", {}, title), svg(drawing)));
  const legend = view.legend.map(([mark, name]) => made("span", {}, svg(mark), name));
  return made("figure", {}, made("div", { class: "legend" }, ...legend), made("div", { class: "panels" }, ...panels));
}

function question(view, place) {
  const leftOut = view.left_out.map((words) => note(`A chart is not drawn here: ${words}. The command below has its figures.`));
  const head = made("h2", { id: `answer-${place}`, title: view.about }, view.title);
  const parts = [...view.charts.map(chart), ...leftOut, ...view.tables.map((part) => table(part))];
  return made("section", {}, head, ...answer(view.answer), ...parts, made("code", {}, view.command));
}

// Molecules -------------------------------------------------------------------------------------------------------------

function molecule(view, place) {
  const card = made("details", { class: "molecule", id: `molecule-${place}` });
  const pick = (atom) => pickAtom(card, atom);
  const drawing = made("div", { class: "drawing" }, ...(view.drawing ? [svg(view.drawing)] : []));
  const space = made("div", { class: "space", tabindex: 0 });
  // The wheel scrolls the page until a reader has clicked into the view.
  space.addEventListener("pointerdown", () => space.focus({ preventScroll: true }));
  space.addEventListener("wheel", (event) => space.matches(":focus") || event.stopPropagation(), { capture: true });
  const shape = view.conformer && window.WebGLRenderingContext ? [space] : [];
  const why = view.why_no_conformer ? [note(view.why_no_conformer)] : [];
  const tokens = view.tokens.map(([piece, marks, atom, about]) => {
    const look = [...marks].map((mark) => `t-${mark}`).join(" ");
    return made("span", { class: look, title: about, "data-atom": atom ?? "" }, piece);
  });
  const text = tokens.length ? [made("div", { class: "text", tabindex: 0 }, ...tokens), note(LEGEND)] : [];
  const rows = table(view.table, (row) => ({ class: view.rows[row].damage, "data-atom": view.rows[row].atom ?? "" }));
  const left = made("div", {}, drawing, ...shape, ...why);
  const right = made("div", {}, ...answer(view.answer), ...text, rows, made("code", {}, view.command));
  const smiles = made("span", { class: "smiles" }, view.smiles);
  card.append(made("summary", {}, made("b", {}, view.name), " ", smiles), made("div", { class: "views" }, left, right));
  card.addEventListener("click", (event) => {
    const at = event.target.closest("[data-atom]");
    if (at) pick(Number(at.dataset.atom));
  });
  card.addEventListener("toggle", () => {
    if (card.open && shape.length && !isPrinted) show3d(card, space, view.conformer, pick);
    if (!card.open) drop(card, space);
  });
  return card;
}

function pickAtom(card, atom) {
  for (const element of card.querySelectorAll("[data-atom]")) {
    element.classList.toggle("picked", element.dataset.atom === String(atom));
  }
  card.querySelector("tr.picked")?.scrollIntoView({ block: "nearest" });
  card.halo?.(atom);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A view a molecule, while its card is open; of too many open ones the oldest is closed.
function show3d(card, space, conformer, pick) {
  if (!window.$3Dmol) return space.replaceChildren(bundle.notes.join(" "));
  const viewer = $3Dmol.createViewer(space, { backgroundAlpha: 0 });
  if (!viewer) return space.replaceChildren("The 3D view needs WebGL, which this browser does not offer.");
  const hues = { colorscheme: { prop: "elem", map: { C: colour("muted"), N: colour("element-7") } } };
  viewer.addModel(conformer.block, "sdf");
  viewer.setStyle({ model: 0 }, { stick: { radius: 0.14, ...hues }, sphere: { scale: 0.25, ...hues } });
  if (conformer.by_group) {
    viewer.addModel(conformer.by_group, "sdf");
    viewer.setStyle({ model: 1 }, { stick: { radius: 0.11, opacity: 0.6, color: colour("neutral") } });
  }
  const atoms = viewer.getModel(0).selectedAtoms({});
  conformer.atoms.forEach((atom, place) => {
    const fault = conformer.marks[atom];
    if (!fault) return;
    const { x, y, z } = atoms[place];
    viewer.addSphere({ center: { x, y, z }, radius: 0.6, color: colour(fault), opacity: 0.6 });
    const look = { backgroundColor: colour(fault), fontColor: fault === "junk" ? "#ffffff" : "#0f171a", fontSize: 13 };
    viewer.addLabel(SIGNS[fault], { position: { x, y, z }, screenOffset: { x: 18, y: 18 }, inFront: true, ...look });
  });
  viewer.setClickable({ model: 0 }, true, (atom) => pick(conformer.atoms[atom.index]));
  let ring = null;
  card.halo = (atom) => {
    if (ring) viewer.removeShape(ring);
    const place = conformer.atoms.indexOf(atom);
    const { x, y, z } = atoms[place] ?? {};
    ring = place < 0 ? null : viewer.addSphere({ center: { x, y, z }, radius: 0.75, color: colour("accent"), opacity: 0.5 });
    viewer.render();
  };
  viewer.zoomTo();
  viewer.zoom(1.2);
  viewer.render();
  shownIn3d.push(card);
  if (shownIn3d.length > MOST_VIEWS) shownIn3d[0].open = false;
}

function drop(card, space) {
  const place = shownIn3d.indexOf(card);
  if (place >= 0) shownIn3d.splice(place, 1);
  space.querySelector("canvas")?.getContext("webgl2")?.getExtension("WEBGL_lose_context")?.loseContext();
  space.replaceChildren();
  card.halo = undefined;
}

// The whole page --------------------------------------------------------------------------------------------------------

function sources() {
  const about = (source) => {
    const rows = Object.entries(source).map(([name, value]) => made("tr", {}, made("th", {}, name), made("td", {}, value)));
    return made("figure", {}, made("table", {}, made("tbody", {}, ...rows)));
  };
  const versions = Object.entries(bundle.versions).map(([name, version]) => `${name} ${version}`).join(", ");
  return made(
    "section",
    {},
    made("h2", { id: "made" }, "How it was made"),
    made("code", {}, bundle.command),
    note(`Made ${bundle.made} with ${versions}${bundle.git_commit ? `; commit ${bundle.git_commit}` : ""}.`),
    ...bundle.sources.map(about),
  );
}

function molecules() {
  const leftOut = bundle.molecules_left_out;
  const all = bundle.molecules.length + leftOut;
  const words = leftOut ? [note(`${bundle.molecules.length} of ${all} answers, the worst molecules first; ${leftOut} are left out.`)] : [];
  return made("section", {}, made("h2", { id: "molecules" }, "Molecules"), ...words, ...bundle.molecules.map(molecule));
}

function build() {
  const hasMolecules = bundle.molecules.length + bundle.molecules_left_out > 0;
  const links = bundle.answers.map((view, place) => made("a", { href: `#answer-${place}` }, view.title));
  if (hasMolecules) links.push(made("a", { href: "#molecules" }, "Molecules"));
  links.push(made("a", { href: "#made" }, "How it was made"));
  const hatch = `<svg xmlns="${SVG}" width="0" height="0"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" stroke="var(--ground)" stroke-width="2.5"/></pattern></defs></svg>`;
  document.querySelector("main").append(
    svg(hatch),
    made("h1", {}, bundle.title),
    made("nav", {}, ...links),
    ...bundle.notes.map(note),
    ...bundle.answers.map(question),
    ...(hasMolecules ? [molecules()] : []),
    ...bundle.left_out.map((words) => note(`Left out: ${words}`)),
    sources(),
  );
}

build();
addEventListener("load", () => document.querySelector(".molecule")?.setAttribute("open", ""));
addEventListener("beforeprint", () => {
  isPrinted = true; // without 3D views
  for (const card of document.querySelectorAll(".molecule")) card.open = true;
});
addEventListener("afterprint", () => (isPrinted = false));
