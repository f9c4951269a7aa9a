// The token strip in the browser. Streamlit calls the default export at the first mount, again whenever the data or the
// theme changes, and sometimes twice for one change; what is on the page is kept per root element and only what differs
// is painted. Pieces are untrusted: they reach the page through textContent and attributes, never as markup.

const RUN = 200; // chips a block: off-screen blocks cost no layout, and the ruler counts them
const ROLES = { C: ["copy", "COPY"], F: ["free", "FREE"], B: ["boundary", "BOUNDARY"] };
const MARKS = { j: ["junk", "junk"], c: ["cut", "cut: no position for it"], x: ["extra", "extra, one too many"] };
const HINT = "Point at a token, or step through with the arrow keys; Enter selects, Escape clears.";
const EMPTY = { pieces: [], shown: {}, details: {}, ids: [], roles: "", forced: "", marks: "", blocks: [], starts: [], ends: [], notes: {} };
const NUMBER = new Intl.NumberFormat("en"); // one: making it costs milliseconds
const strips = new WeakMap(); // root element -> Strip
const indices = new WeakMap(); // chip -> its index

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const root = parentElement.querySelector(".strip");
  if (!root || !data) return;
  let strip = strips.get(root);
  if (!strip) strips.set(root, (strip = new Strip(root)));
  strip.send = (value) => setStateValue("selected", value);
  strip.update(data);
  // No cleanup: all listeners sit on the root and go with it.
}

class Strip {
  constructor(root) {
    this.list = root.querySelector(".tokens");
    this.details = root.querySelector(".details");
    this.root = root;
    this.data = EMPTY;
    this.chips = [];
    this.current = 0; // the one chip that Tab reaches
    this.selected = null; // the index of the selected chip
    this.pointed = -1; // under the pointer: a rerun must not take its details away
    this.template = newChip();
    this.list.addEventListener("click", (event) => this.onClick(event));
    this.list.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("focusin", (event) => this.describe(this.indexOf(event.target)));
    this.list.addEventListener("pointerover", (event) => this.point(this.indexOf(event.target)));
    this.list.addEventListener("pointerleave", () => this.point(-1));
    root.querySelector(".actions").addEventListener("click", (event) => this.onCopy(event));
  }

  update(data) {
    const before = this.data;
    if (data === before) return;
    const began = performance.now();
    this.data = data;
    this.paint(before);
    this.paintFrame();
    if (data.reveal !== (before.reveal ?? null)) this.reveal(data.reveal);
    measure("driftscope-strip-update", began);
    requestAnimationFrame(() => requestAnimationFrame(() => measure("driftscope-strip-paint", began)));
  }

  // Chips -------------------------------------------------------------------------------------------------------------

  paint(before) {
    const { data, chips } = this;
    const count = data.pieces.length;
    const kept = Math.min(chips.length, count);
    let sameUpTo = kept;
    for (let i = 0; i < kept; i++) {
      const sameToken = data.pieces[i] === before.pieces[i] && data.ids[i] === before.ids[i];
      if (!sameToken && sameUpTo === kept) sameUpTo = i;
      if (!sameToken || !sameLook(data, before, i)) dress(chips[i], data, i);
    }
    const heldFocus = this.focused();
    const goesOn = kept > 0 && sameUpTo === chips.length; // all that was here is still here
    this.drop(count);
    this.append(kept);
    if (!goesOn) this.startOver(data.selected);
    if (heldFocus && !this.focused()) this.focus(this.current);
  }

  // Another text: what Python took over from the selection holds, which is none unless it saw these tokens before.
  startOver(selected) {
    this.list.scrollTop = 0;
    this.unselect();
    this.setCurrent(0);
    if (selected !== null) this.select(selected);
  }

  append(from) {
    const { data, list, chips } = this;
    const fragment = document.createDocumentFragment();
    let run = from % RUN ? list.lastElementChild : null;
    for (let i = from; i < data.pieces.length; i++) {
      if (i % RUN === 0) fragment.append((run = newRun(i)));
      const chip = this.template.cloneNode(false);
      dress(chip, data, i);
      chips.push(chip);
      run.append(chip);
    }
    list.append(fragment);
    list.classList.toggle("ruled", chips.length > RUN);
    if (list.childElementCount > 1) list.style.setProperty("--run-height", `${list.firstElementChild.offsetHeight}px`);
  }

  drop(count) {
    while (this.list.childElementCount > Math.ceil(count / RUN)) this.list.lastElementChild.remove();
    for (const chip of this.chips.splice(count)) chip.remove();
  }

  indexOf(target) {
    return indices.get(target) ?? -1;
  }

  // Around the chips --------------------------------------------------------------------------------------------------

  paintFrame() {
    const { data, root, list } = this;
    const count = data.pieces.length;
    root.querySelector(".label").textContent = data.label;
    root.querySelector(".caption").textContent = data.caption;
    root.querySelector(".count").textContent = `${NUMBER.format(count)} ${count === 1 ? "token" : "tokens"}`;
    root.querySelector(".empty").hidden = count > 0;
    list.hidden = count === 0;
    list.setAttribute("aria-label", data.label);
    list.style.maxHeight = `${data.max_height}px`;
    list.classList.toggle("selectable", data.select);
    for (const item of root.querySelectorAll("[data-when]")) {
      const [column, code] = item.dataset.when.split(":");
      item.hidden = !data[column].includes(code);
    }
    for (const button of root.querySelectorAll("[data-copy]")) button.disabled = count === 0;
    this.describeResting();
  }

  point(index) {
    this.pointed = index;
    this.describeResting();
  }

  describeResting() {
    const resting = this.focused() ? this.current : (this.selected ?? -1);
    this.describe(this.pointed in this.chips ? this.pointed : resting);
  }

  describe(index) {
    if (index < 0 || index >= this.chips.length) return this.details.replaceChildren(newHint(this.chips.length));
    const parts = facts(this.data, index).map(([name, value, mono]) => newFact(name, value, mono));
    this.details.replaceChildren(...parts);
  }

  // Moving and selecting ----------------------------------------------------------------------------------------------

  focused() {
    return this.list.contains(this.list.getRootNode().activeElement);
  }

  setCurrent(index) {
    const next = Math.max(0, index);
    if (this.chips[this.current]) this.chips[this.current].tabIndex = -1;
    if (this.chips[next]) this.chips[next].tabIndex = 0;
    this.current = next;
  }

  focus(index) {
    this.setCurrent(index);
    this.chips[this.current]?.focus({ preventScroll: true });
    this.chips[this.current]?.scrollIntoView({ block: "nearest" });
  }

  select(index) {
    this.unselect();
    if (!this.chips[index]) return;
    this.selected = index;
    this.chips[index].setAttribute("aria-selected", "true");
    this.setCurrent(index);
  }

  unselect() {
    this.chips[this.selected ?? -1]?.setAttribute("aria-selected", "false");
    this.selected = null;
  }

  choose(index) {
    if (!this.data.select) return;
    const again = this.selected === index;
    if (again) this.unselect();
    else this.select(index);
    this.send(again ? null : [index, this.chips.length, this.data.digest]);
  }

  clear() {
    if (this.selected === null) return;
    this.unselect();
    this.send(null);
  }

  reveal(index) {
    this.list.querySelector(".revealed")?.classList.remove("revealed");
    const chip = this.chips[index ?? -1];
    chip?.classList.add("revealed");
    chip?.scrollIntoView({ block: "nearest" });
  }

  onClick(event) {
    const index = this.indexOf(event.target);
    if (index < 0) return;
    this.focus(index);
    this.choose(index);
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || this.indexOf(event.target) < 0) return;
    if (event.key === "Enter" || event.key === " ") this.choose(this.current);
    else if (event.key === "Escape") this.clear();
    else {
      const next = this.target(event.key);
      if (next === null) return;
      this.focus(Math.min(Math.max(next, 0), this.chips.length - 1));
    }
    event.preventDefault(); // no scrolling by Space or an arrow
    event.stopPropagation(); // and no shortcut of the page
  }

  target(key) {
    switch (key) {
      case "ArrowRight": return this.current + 1;
      case "ArrowLeft": return this.current - 1;
      case "ArrowDown": return this.lineAway(1, 1);
      case "ArrowUp": return this.lineAway(-1, 1);
      case "PageDown": return this.lineAway(1, this.list.clientHeight);
      case "PageUp": return this.lineAway(-1, this.list.clientHeight);
      case "Home": return 0;
      case "End": return this.chips.length - 1;
      default: return null;
    }
  }

  // The chip nearest below (1) or above (-1) the current one, at least `distance` pixels away, or the last on that side.
  lineAway(direction, distance) {
    const { chips } = this;
    const here = chips[this.current].getBoundingClientRect();
    let best = null;
    let line = null;
    let last = this.current;
    for (let i = this.current + direction; chips[i]; i += direction) {
      last = i;
      const box = chips[i].getBoundingClientRect();
      if ((box.top - here.top) * direction < distance) continue;
      if (line === null) line = box.top;
      else if (Math.abs(box.top - line) > 2) break;
      const off = Math.abs(box.left - here.left);
      if (best === null || off < best.off) best = { i, off };
    }
    return best === null ? last : best.i;
  }

  // Clipboard ---------------------------------------------------------------------------------------------------------

  async onCopy(event) {
    const what = event.target.dataset?.copy;
    if (!what) return;
    const { ids, pieces, text } = this.data;
    const content = what === "ids" ? ids.filter((id) => id !== null).join(" ") : (text ?? pieces.join(""));
    const copied = await copy(content, this.root);
    this.root.querySelector(".status").textContent = copied ? `Copied ${what}.` : "The browser did not allow copying.";
  }
}

// Building and dressing elements ----------------------------------------------------------------------------------------

function newChip() {
  const chip = document.createElement("span");
  chip.setAttribute("role", "option");
  chip.setAttribute("aria-selected", "false");
  chip.tabIndex = -1;
  return chip;
}

function newRun(start) {
  const run = document.createElement("div");
  run.className = "run";
  run.setAttribute("role", "presentation");
  run.dataset.start = NUMBER.format(start); // the ruler, drawn by CSS
  return run;
}

function newHint(count) {
  const hint = document.createElement("div");
  hint.className = "hint";
  hint.textContent = count ? HINT : "";
  return hint;
}

function newFact(name, value, mono) {
  const fact = document.createElement("div");
  const term = document.createElement("dt");
  const content = document.createElement("dd");
  term.textContent = name;
  content.textContent = value;
  if (mono) content.className = "mono";
  fact.append(term, content);
  return fact;
}

function dress(chip, data, i) {
  const classes = ["chip"];
  const role = ROLES[data.roles[i]];
  const mark = MARKS[data.marks[i]];
  if (role) classes.push(role[0]);
  if (data.forced[i] === "1") classes.push("forced");
  if (mark) classes.push(mark[0]);
  if (chip.classList.contains("revealed")) classes.push("revealed");
  chip.className = classes.join(" ");
  indices.set(chip, i);
  chip.textContent = shownPiece(data, i);
  chip.setAttribute("aria-label", spoken(data, i, role, mark));
}

function sameLook(data, before, i) {
  return (
    data.roles[i] === before.roles[i] &&
    data.marks[i] === before.marks[i] &&
    data.forced[i] === before.forced[i] &&
    data.blocks[i] === before.blocks[i]
  );
}

function shownPiece(data, i) {
  return data.shown[i] ?? data.pieces[i];
}

function spoken(data, i, role, mark) {
  const parts = [shownPiece(data, i), `token ${i}`];
  if (role) parts.push(role[1]);
  if (data.forced[i] !== "-") parts.push(data.forced[i] === "1" ? "forced" : "free choice");
  if (mark) parts.push(mark[1]);
  if ((data.blocks[i] ?? null) !== null) parts.push(`block ${data.blocks[i]}`);
  return parts.join(", ");
}

// What the details name about a chip: [name, value, in the code font].
function facts(data, i) {
  const role = ROLES[data.roles[i]]?.[1] ?? "";
  const forced = { 1: "forced by the LP", 0: "the model's choice" }[data.forced[i]] ?? "";
  const start = data.starts[i] ?? null;
  const end = data.ends[i] ?? null;
  const rows = [["Token", String(i), true]];
  rows.push(["Piece", data.details[i] ?? shownPiece(data, i), true]);
  if (data.ids[i] !== null) rows.push(["Id", String(data.ids[i]), true]);
  if (start !== null) rows.push(["Characters", end === null || end - start === 1 ? `${start}` : `${start}–${end - 1}`, true]);
  if (role || forced) rows.push(["Role", [role, forced].filter(Boolean).join(", "), false]);
  if (data.marks[i] in MARKS) rows.push(["Mark", MARKS[data.marks[i]][1], false]);
  if ((data.blocks[i] ?? null) !== null) rows.push(["Block", String(data.blocks[i]), true]);
  if (data.notes[i]) rows.push(["Note", data.notes[i], false]);
  return rows;
}

async function copy(content, root) {
  try {
    await navigator.clipboard.writeText(content);
    return true;
  } catch {
    return copyByHand(content, root); // no permission, or a page that is not a secure context
  }
}

function copyByHand(content, root) {
  const area = document.createElement("textarea");
  area.value = content;
  area.className = "offstage";
  const before = root.getRootNode().activeElement;
  root.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  before?.focus();
  return copied;
}

// The latest update under the browser's own performance tools: the work itself, and until the frame is on the screen.
function measure(name, began) {
  performance.clearMeasures(name);
  performance.measure(name, { start: began, end: performance.now() });
}
