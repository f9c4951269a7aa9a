// The token strip in the browser: what is on the page is kept, and only what differs is painted. Pieces are untrusted:
// they reach the page through textContent and attributes, never as markup. The module goes on in token_strip_chips.js
// (elements of a chip) and in token_stream.js (how the data comes).

const RUN = 200; // chips a block: off-screen blocks cost no layout, and the ruler counts them
const ROLES = { C: ["copy", "COPY"], F: ["free", "FREE"], B: ["boundary", "BOUNDARY"] };
const MARKS = { j: ["junk", "junk"], c: ["cut", "cut: no position for it"], k: ["cut", "cut: the LP closed the number"], w: ["wrong", "wrong: a check of the molecule names its atom"], r: ["redrawn", "drawn anew: the guard threw an earlier try away"] };
const HINT = "Hover over a token, or use the arrow keys; Enter selects, Esc clears.";
const TINTS = ["90 % or more", "50 to 90 %", "10 to 50 %", "1 to 10 %", "below 1 %"];
const END_PX = 24; // so near the end counts as there
const EMPTY = { pieces: [], shown: {}, details: {}, ids: [], roles: "", forced: "", marks: "", tints: "", blocks: [], atoms: [], starts: [], ends: [], notes: {} };
const NUMBER = new Intl.NumberFormat("en"); // one: making it costs milliseconds
const indices = new WeakMap(); // chip -> its index

export function mount(shell) {
  return new Strip(shell);
}

class Strip {
  constructor(shell) {
    const root = shell.root.querySelector(".strip");
    this.send = (value) => shell.state("selected", value);
    this.list = root.querySelector(".tokens");
    this.details = root.querySelector(".details");
    this.root = root;
    this.data = EMPTY;
    this.chips = [];
    this.current = 0; // the one chip that Tab reaches
    this.selected = null; // the index of the selected chip
    this.pointed = -1; // under the pointer: a rerun must not take its details away
    this.atom = null; // under the pointer, in any view
    this.lit = []; // its chips
    this.atEnd = true;
    this.top = 0;
    this.template = newChip();
    this.list.addEventListener("click", (event) => this.onClick(event));
    this.list.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("focusin", (event) => this.describe(this.indexOf(event.target)));
    this.list.addEventListener("pointerover", (event) => this.point(this.indexOf(event.target)));
    this.list.addEventListener("pointerleave", () => this.point(-1));
    this.list.addEventListener("scroll", () => this.onScroll());
    root.querySelector(".actions").addEventListener("click", (event) => this.onCopy(event));
    this.onAtom = (event) => this.light(event.detail);
    globalThis.addEventListener("driftscope-atom", this.onAtom);
  }

  destroy() {
    globalThis.removeEventListener("driftscope-atom", this.onAtom);
  }

  // False where an earlier message is missing.
  update(message) {
    this.root.classList.toggle("only-legend", "legend_of" in message);
    if (message.legend_of) return paintLegend(this.root, message.legend_of);
    const before = this.data;
    const known = before.epoch === message.epoch;
    if (known && message.number <= before.number) return true; // it came twice
    if ((message.from || message.text?.[0]) && !(known && before.number >= message.since)) return false;
    const isDone = before.follow && !message.follow && this.atEnd && !this.focused();
    this.data = merged(before, message);
    this.paint(before);
    this.paintFrame();
    this.light(this.atom); // new chips, and those that were dressed anew
    this.list.classList.toggle("writing", message.follow); // only then do chips flash, and is the height kept
    this.list.style.minHeight = message.follow ? this.list.style.maxHeight : "";
    if (isDone) this.list.scrollTop = this.top = 0; // a finished text is read from its beginning
    return true;
  }

  light(atom) {
    this.atom = atom;
    for (const chip of this.lit) chip.classList.remove("lit");
    this.lit = atom === null ? [] : this.chips.filter((_, i) => this.data.atoms[i] === atom);
    for (const chip of this.lit) chip.classList.add("lit");
  }

  // Chips -------------------------------------------------------------------------------------------------------------

  paint(before) {
    const { data, chips } = this;
    const count = data.pieces.length;
    const kept = Math.min(chips.length, count);
    let sameUpTo = kept;
    for (let i = data.from; i < kept; i++) {
      const sameToken = data.pieces[i] === before.pieces[i] && data.ids[i] === before.ids[i];
      if (!sameToken && sameUpTo === kept) sameUpTo = i;
      if (!sameToken || !sameLook(data, before, i)) dress(chips[i], data, i);
    }
    const heldFocus = this.focused();
    const goesOn = chips.length > 0 && (before.stream === data.stream || sameUpTo === chips.length);
    if (goesOn && this.selected >= sameUpTo) this.unselect();
    if (goesOn) this.setCurrent(Math.min(this.current, Math.max(0, sameUpTo - 1)));
    this.drop(count);
    this.append(kept);
    if (!goesOn) this.startOver(data.selected);
    if (heldFocus && !this.focused()) this.focus(this.current);
  }

  // Another text: what Python took over from the selection holds, which is none unless it saw these tokens before.
  startOver(selected) {
    this.list.scrollTop = this.top = 0;
    this.atEnd = true;
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
    if (!data.follow || !this.atEnd || this.focused()) return;
    list.scrollTop = list.scrollHeight;
    this.top = list.scrollTop;
  }

  // Up is the reader's doing; down to the end takes up following again.
  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.list;
    if (scrollHeight - scrollTop - clientHeight <= END_PX) this.atEnd = true;
    else if (scrollTop < this.top - 1) this.atEnd = false;
    this.top = scrollTop;
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
    root.querySelector(".legend").hidden = !data.legend;
    root.querySelector(".actions").hidden = !data.copy;
    this.details.hidden = !data.details_shown;
    paintLegend(root, data);
    for (const button of root.querySelectorAll("[data-copy]")) button.disabled = count === 0;
    this.describeResting();
  }

  point(index) {
    this.pointed = index;
    globalThis.dispatchEvent(new CustomEvent("driftscope-atom", { detail: this.data.atoms?.[index] ?? null }));
    this.describeResting();
    const chip = this.details.hidden && this.chips[index];
    if (chip) chip.title = facts(this.data, index).map(([name, value]) => `${name}: ${value}`).join("\n");
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
    const copied = await copy(content);
    this.root.querySelector(".status").textContent = copied ? `Copied ${what}.` : "The browser did not allow copying.";
  }
}
