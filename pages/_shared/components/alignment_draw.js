// Drawing the alignment: what a column needs to know, where columns and rows stand, and the elements of a run of columns.
// Pieces reach the page through textContent and attributes only.

const RUN = 80; // columns made at once
const MOST_CHARS = 14; // of a piece in its cell; the details have the rest
const PAD = 12; // pixels of a cell beside its piece
const LEAST_WIDTH = 21;
const SVG = "http://www.w3.org/2000/svg";
const ROLES = { C: ["copy", "COPY"], F: ["free", "FREE"], B: ["boundary", "BOUNDARY"] };
const MARKS = {
  j: ["junk", "junk: no part of the numbers"],
  c: ["cut", "cut: the LP closed the number"],
  w: ["wrong", "wrong: a check of the molecule names its atom"],
  r: ["redrawn", "drawn anew: the guard threw an earlier try away"],
  b: ["beyond", "beyond: the template has no position for it"],
  l: ["left_over", "left over: a position that the text did not use"],
};
const HEIGHTS = { atom: 22, ruler: 16, template: 27, middle: 11, generated: 27, written: 18, drift: 64, likely: 22, rank: 22, taken: 22 };
const LABELS = {
  atom: "Atom",
  ruler: "Position",
  template: "Template",
  generated: "Generated",
  written: "Text's block",
  drift: "Drift",
  likely: "p(raw) forced",
  rank: "Rank forced",
  taken: "LP took, free",
};
// Where a bar gets a step higher and stronger: against the model a little, more, ... The first step is "not against it".
const SCALES = {
  likely: { name: "p(raw) of a forced token", steps: ["≥ 0.9", "≥ 0.5", "≥ 0.1", "≥ 0.01", "less"] },
  rank: { name: "its rank", steps: ["1", "2–3", "4–10", "11–100", "more"] },
  taken: { name: "mass the LP took from a free token", steps: ["< 1 %", "< 10 %", "< 50 %", "< 90 %", "more"] },
};
const indices = new WeakMap(); // column -> its index

// The data and what follows from it.
class Model {
  constructor(data) {
    this.data = data;
    this.count = data.pos.length;
    this.steps = data.steps ?? null;
    this.stepAt = new Map((data.steps?.pos ?? []).map((pos, k) => [pos, k]));
    this.marked = [];
    for (let i = 0; i < this.count; i++) if (data.marks[i] in MARKS) this.marked.push(i);
    this.spans = spansOf(data.blocks ?? [], this.count);
    this.textSpans = spansOf(data.text_blocks ?? [], this.count);
    this.most = Math.max(...reduced(data.drift, Math.max), 0);
    this.least = Math.min(...reduced(data.drift, Math.min), 0);
  }

  step(i) {
    const pos = this.data.pos[i];
    return pos === null ? undefined : this.stepAt.get(pos);
  }

  text(number) {
    return number < 0 ? "" : this.data.texts[number];
  }

  differs(i) {
    const [here, there] = [this.data.text_roles[i], this.data.roles[i]];
    return here !== "-" && there !== "-" && here !== there;
  }

  isSame(i) {
    const { ids, template_ids } = this.data;
    return ids[i] !== null && ids[i] === template_ids[i];
  }

  blockName(block) {
    const element = this.data.elements[block];
    return element ? `${block} ${element}` : String(block);
  }

  spanOf(block) {
    return block === null ? undefined : this.spans.get(block);
  }

  markFrom(index, direction) {
    const ahead = direction > 0 ? this.marked.find((i) => i > index) : this.marked.findLast((i) => i < index);
    return ahead ?? index;
  }

  // The start of the next block or of this one, then of the one before.
  blockFrom(index, direction) {
    const starts = [...this.spans.values()].map(([first]) => first);
    const ahead = direction > 0 ? starts.find((i) => i > index) : starts.findLast((i) => i < index);
    return ahead ?? (direction > 0 ? this.count - 1 : 0);
  }

  // 0 to 4 for a bar of that row at that column, -1 for none.
  level(row, i) {
    const k = this.step(i);
    if (k === undefined || this.data.forced[i] !== (row === "taken" ? "0" : "1")) return -1;
    const value = this.steps[{ likely: "p_raw", rank: "rank", taken: "taken" }[row]][k];
    if (value === null) return -1;
    if (row === "likely") return [0.9, 0.5, 0.1, 0.01].filter((least) => value < least).length;
    return (row === "rank" ? [1, 3, 10, 100] : [0.01, 0.1, 0.5, 0.9]).filter((most) => (row === "rank" ? value > most : value >= most)).length;
  }

  has(row) {
    if (!(row in SCALES)) return true;
    return this.steps !== null && this.data.forced.includes(row === "taken" ? "0" : "1");
  }
}

function reduced(values, pick) {
  return values?.length ? [values.reduce((one, other) => pick(one, other))] : [];
}

// Block -> first and last column that belong to it.
function spansOf(blocks, count) {
  const spans = new Map();
  for (let i = 0; i < count; i++) {
    const span = spans.get(blocks[i]);
    if (span) span[1] = i;
    else if (blocks[i] >= 0) spans.set(blocks[i], [i, i]);
  }
  return spans;
}

// Places --------------------------------------------------------------------------------------------------------------

function charWidth(root) {
  return root.querySelector(".probe").getBoundingClientRect().width / 10 || 8.4;
}

function placesOf(model, ch) {
  const { data } = model;
  const lengths = data.texts?.map((text) => lengthOf(shortened(text))) ?? [];
  const x = new Float64Array(model.count + 1);
  for (let i = 0; i < model.count; i++) {
    const mine = (lengths[data.pieces[i]] ?? 0) + (data.marks[i] in MARKS ? 1.3 : 0);
    const most = Math.max(mine, lengths[data.template_pieces[i]] ?? 0);
    x[i + 1] = x[i] + Math.max(LEAST_WIDTH, Math.ceil(most * ch) + PAD);
  }
  return x;
}

function shortened(text) {
  const chars = [...text];
  return chars.length <= MOST_CHARS ? text : chars.slice(0, MOST_CHARS - 1).join("") + "…";
}

// In characters of the code font; what is not Latin may take two.
function lengthOf(text) {
  let length = 0;
  for (const char of text) length += char.codePointAt(0) >= 0x1100 && char !== "…" ? 2 : 1;
  return length;
}

function rowsOf(model, hidden) {
  const at = {};
  let top = 0;
  for (const [name, height] of Object.entries(HEIGHTS)) {
    if (hidden.has(name) || !model.has(name)) continue;
    at[name] = { top, height };
    top += height;
  }
  return { at, height: top + 4 };
}

// Elements --------------------------------------------------------------------------------------------------------------

function newElement(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  if (text) element.textContent = text;
  return element;
}

function newRun(model, x, rows, start) {
  const end = Math.min(start + RUN, model.count);
  const run = newElement("div", "run");
  run.setAttribute("role", "presentation");
  run.style.left = `${x[start]}px`;
  run.style.width = `${x[end] - x[start]}px`;
  run.append(...drawings(model, x, rows, start, end));
  run.columns = [];
  for (let i = start; i < end; i++) run.columns.push(newColumn(model, i, x[i] - x[start], x[i + 1] - x[i]));
  run.append(...run.columns);
  return run;
}

function newColumn(model, i, left, width) {
  const column = newElement("div", model.differs(i) ? "col differs" : model.isSame(i) ? "col same" : "col");
  column.setAttribute("role", "option");
  column.setAttribute("aria-selected", "false");
  column.setAttribute("aria-setsize", model.count);
  column.setAttribute("aria-posinset", i + 1);
  column.setAttribute("aria-label", spoken(model, i));
  column.tabIndex = -1;
  column.style.left = `${left}px`;
  column.style.width = `${width}px`;
  const { data } = model;
  const pos = data.pos[i];
  if (pos !== null && pos % 10 === 0) column.dataset.pos = pos;
  column.append(newCell("t", data.roles[i], model.text(data.template_pieces[i])));
  const generated = newCell("g", data.text_roles[i], model.text(data.pieces[i]));
  if (data.forced[i] === "1") generated.classList.add("forced");
  if (data.marks[i] in MARKS) generated.classList.add(MARKS[data.marks[i]][0]);
  column.append(generated);
  indices.set(column, i);
  return column;
}

function newCell(side, role, text) {
  return newElement("span", `cell ${side} ${ROLES[role]?.[0] ?? ""}${text ? "" : " gap"}`, shortened(text));
}

// The drift and the bars of one run, each a drawing of a few paths.
function drawings(model, x, rows, start, end) {
  const found = [];
  const place = (i) => x[i] - x[start];
  for (const [name, { top, height }] of Object.entries(rows.at)) {
    const isBars = name in SCALES;
    if (!isBars && name !== "drift") continue;
    const paths = isBars ? barPaths(model, name, place, height, start, end) : driftPaths(model, place, height, start, end);
    found.push(newDrawing(name, paths, top, place(end), height));
  }
  return found;
}

function newDrawing(name, paths, top, width, height) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `drawing ${name}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.style.top = `${top}px`;
  for (const [className, path] of paths) svg.append(newPath(className, path));
  return svg;
}

function newPath(className, path) {
  const element = document.createElementNS(SVG, "path");
  element.setAttribute("class", className);
  element.setAttribute("d", path);
  return element;
}

function barPaths(model, name, place, height, start, end) {
  const paths = ["", "", "", "", ""];
  for (let i = start; i < end; i++) {
    const level = model.level(name, i);
    if (level < 0) continue;
    const tall = barHeight(level, height);
    paths[level] += `M${place(i) + 1} ${height - 1}v${-tall}H${place(i + 1) - 1}v${tall}z`;
  }
  return paths.map((path, level) => [`level level-${level}`, path]).filter(([, path]) => path);
}

function barHeight(level, height) {
  return level === 0 ? 2 : 2 + (level * (height - 5)) / 4;
}

// Heights of the drift inside its row: zero where it belongs between the least and the most.
function driftScale(model, height) {
  const [most, least] = [model.most, model.least];
  const range = most - least || 1;
  return (drift) => 6 + ((most - drift) / range) * (height - 12) + (most === least ? (height - 12) / 2 : 0);
}

function driftPaths(model, place, height, start, end) {
  const { drift } = model.data;
  const y = driftScale(model, height);
  const areas = { above: "", below: "" };
  const lines = { above: "", below: "", level: "" };
  const sideOf = (value) => (value > 0 ? "above" : value < 0 ? "below" : "level");
  for (let i = start; i < end; i++) {
    const [left, right, before] = [place(i), place(i + 1), drift[i - 1] ?? 0];
    const side = sideOf(drift[i]);
    lines[side] += `M${left} ${y(before)}V${y(drift[i])}H${right}`;
    if (side !== "level") areas[side] += `M${left} ${y(0)}V${y(drift[i])}H${right}V${y(0)}z`;
  }
  const zero = `M0 ${y(0)}H${place(end)}`;
  const shown = [["zero", zero], ...Object.entries(areas).map(([side, path]) => [`area ${side}`, path])];
  return [...shown, ...Object.entries(lines).map(([side, path]) => [`line ${side}`, path])].filter(([, path]) => path);
}

// Row names on the left, with the ends of the drift's scale.
function gutterOf(model, rows) {
  const labels = [];
  for (const [name, { top, height }] of Object.entries(rows.at)) {
    if (!(name in LABELS)) continue;
    const label = newElement("div", `row-label ${name}`, LABELS[name]);
    label.style.top = `${top}px`;
    label.style.height = `${height}px`;
    labels.push(label);
    if (name !== "drift") continue;
    const y = driftScale(model, height);
    for (const drift of new Set([model.most, 0, model.least])) {
      const tick = newElement("span", "tick", signed(drift));
      tick.style.top = `${y(drift)}px`;
      label.append(tick);
    }
  }
  return labels;
}

// Bands of the template's blocks and of the text's own, under all columns.
function layerOf(model, x, rows) {
  const bands = [];
  const add = (row, spans, name) => {
    if (!rows.at[row]) return;
    for (const [block, [first, last]] of spans) {
      const band = newElement("div", `band ${row}${block % 2 ? " odd" : ""}`);
      band.style.left = `${x[first]}px`;
      band.style.width = `${x[last + 1] - x[first]}px`;
      band.append(newElement("span", "", name(block)));
      bands.push(band);
    }
  };
  add("atom", model.spans, (block) => model.blockName(block));
  add("written", model.textSpans, String);
  return bands;
}

// The whole molecule in one small drawing; a drawing in the track's own width stretches with the page.
function drawMap(map, model, x, width) {
  const svg = map.querySelector("svg");
  svg.setAttribute("viewBox", `0 0 ${Math.max(width, 1)} 40`);
  const paths = model.count ? driftPaths(model, (i) => x[i], 40, 0, model.count) : [];
  const ticks = { up: "", down: "", anew: "" };
  const sideOf = (mark) => ("jl".includes(mark) ? "up" : mark === "r" ? "anew" : "down");
  for (const i of model.marked) ticks[sideOf(model.data.marks[i])] += tickPath(x[i], model.data.marks[i]);
  const marks = Object.entries(ticks).map(([side, path]) => [`mark ${side}`, path]);
  svg.replaceChildren(...[...paths, ...marks].filter(([, path]) => path).map(([className, path]) => newPath(className, path)));
}

function tickPath(at, mark) {
  return "jl".includes(mark) ? `M${at} 0v7` : `M${at} 40v-7`;
}
