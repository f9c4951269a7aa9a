// The alignment strip in the browser: state, moving, picking. Columns stand at places that are computed, not measured, so
// only those near the window are ever made. Drawing is in alignment_draw.js, words in alignment_facts.js; the three are
// one module, which once.js loads. What is drawn comes as a message's `large` part, and only when it changed.

const NONE = { digest: "", selected: null, block: null };
const UNHEARD_MS = 3000; // how long a pick outlives messages that do not know of it
const MARGIN = 600; // pixels on both sides of the window that are made before they are seen

export function mount(shell) {
  const strip = new Alignment(shell.root.querySelector(".alignment"));
  strip.send = (value) => shell.trigger("picked", value);
  return strip;
}

class Alignment {
  constructor(root) {
    const find = (name) => root.querySelector(name);
    this.root = root;
    this.scroller = find(".scroller");
    this.track = find(".track");
    this.layer = find(".layer");
    this.gutter = find(".gutter");
    this.details = find(".details");
    this.map = find(".map");
    this.data = NONE;
    this.hidden = new Set(); // rows that the reader put away
    this.current = 0; // the one column that Tab reaches
    this.selected = null;
    this.pointed = -1; // under the pointer: a rerun must not take its details away
    this.awaited = null; // { stamp, until }: a pick that Python did not name yet
    this.isShown = root.clientWidth > 0;
    this.listen();
  }

  listen() {
    const { track, root } = this;
    track.addEventListener("click", (event) => this.onClick(event));
    track.addEventListener("keydown", (event) => this.onKey(event));
    track.addEventListener("focusin", (event) => this.describe(indexOf(event.target)));
    track.addEventListener("focusout", () => this.describeResting());
    track.addEventListener("pointerover", (event) => this.point(indexOf(event.target)));
    track.addEventListener("pointerleave", () => this.point(-1));
    this.onAtom = (event) => this.outlineBlock(event.detail ?? this.data.block); // under the pointer, in another view
    globalThis.addEventListener("driftscope-atom", this.onAtom);
    this.scroller.addEventListener("scroll", () => this.look(), { passive: true });
    root.querySelector(".toggles").addEventListener("click", (event) => this.onToggle(event));
    root.querySelector(".marks").addEventListener("click", (event) => this.onGo(event));
    for (const name of ["pointerdown", "pointermove"]) this.map.addEventListener(name, (event) => this.onMap(event));
    new ResizeObserver(() => this.onResize()).observe(this.scroller);
  }

  destroy() {
    globalThis.removeEventListener("driftscope-atom", this.onAtom);
  }

  // False asks for all of it: the columns of this message came with one that was missed.
  update(message) {
    const isOther = !this.model || message.holds !== this.holds;
    if (isOther && !message.large) return false;
    const before = this.data;
    if (isOther) [this.holds, this.large] = [message.holds, message.large];
    this.data = { ...this.large, ...message };
    const isOtherText = this.data.digest !== before.digest;
    if (isOther) this.draw(isOtherText);
    this.frame();
    this.obey(before, isOtherText);
  }

  // What is drawn -----------------------------------------------------------------------------------------------------

  draw(isOtherText) {
    const heldFocus = this.focused();
    this.model = new Model(this.data);
    frameWords(this.root, this.model);
    this.pointed = -1;
    if (isOtherText) this.current = 0;
    this.lay();
    if (isOtherText) this.scroller.scrollLeft = 0;
    this.look();
    if (heldFocus && this.model.count) this.focus(this.current);
  }

  // Places of columns and rows, and everything that depends on them.
  lay() {
    const { model, data } = this;
    this.ch = charWidth(this.root);
    this.x = placesOf(model, this.ch);
    this.width = this.x[model.count];
    this.rows = rowsOf(model, this.hidden);
    this.runs = [];
    this.track.replaceChildren();
    const lane = this.track.parentElement;
    lane.style.width = `${this.width}px`;
    lane.style.height = `${this.rows.height}px`;
    for (const [name, { top }] of Object.entries(this.rows.at)) this.root.style.setProperty(`--y-${name}`, `${top}px`);
    this.gutter.replaceChildren(...gutterOf(model, this.rows));
    this.layer.replaceChildren(...layerOf(model, this.x, this.rows), (this.outline = newElement("div", "outline")));
    drawMap(this.map, model, this.x, this.width);
    this.outlineBlock(data.block);
  }

  // Fill what can be seen; called whenever the window moves.
  look() {
    if (!this.x || !this.scroller.clientWidth) return;
    const left = this.scroller.scrollLeft;
    const seen = this.seenWidth();
    const last = this.columnAt(left + seen + MARGIN);
    for (let i = this.columnAt(left - MARGIN); i <= last; i = (Math.floor(i / RUN) + 1) * RUN) this.fill(i);
    const share = (pixels) => `${(100 * pixels) / Math.max(this.width, 1)}%`;
    const window = this.map.querySelector(".window");
    window.style.left = share(left);
    window.style.width = share(Math.min(seen, this.width));
    this.map.hidden = this.width <= seen;
  }

  fill(index) {
    const run = Math.floor(index / RUN);
    if (this.runs[run] || index >= this.model.count) return;
    this.runs[run] = newRun(this.model, this.x, this.rows, run * RUN);
    this.track.append(this.runs[run]);
    this.column(this.current)?.setAttribute("tabindex", "0");
    this.column(this.selected ?? -1)?.setAttribute("aria-selected", "true");
  }

  column(index) {
    return this.runs[Math.floor(index / RUN)]?.columns[index % RUN];
  }

  // The column over a place of the track, the nearest one at its ends.
  columnAt(place) {
    let [low, high] = [0, Math.max(this.model.count - 1, 0)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.x[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  seenWidth() {
    return this.scroller.clientWidth - this.gutter.offsetWidth;
  }

  reveal(from, to = from) {
    const seen = this.seenWidth();
    const [left, right] = [this.x[from], this.x[to + 1]];
    const at = this.scroller.scrollLeft;
    const isSeen = left >= at && right <= at + seen;
    if (isSeen || !this.model.count) return;
    const middle = (left + right - seen) / 2;
    this.scroller.scrollLeft = right - left > seen ? left - 8 : middle;
    this.look();
  }

  // Around it ---------------------------------------------------------------------------------------------------------

  frame() {
    const { data, root, model } = this;
    const isEmpty = model.count === 0;
    root.querySelector(".label").textContent = data.label;
    root.querySelector(".caption").textContent = data.caption;
    this.track.setAttribute("aria-label", data.label);
    this.track.classList.toggle("pickable", data.pickable);
    root.querySelector(".empty").hidden = !isEmpty;
    for (const name of [".scroller", ".marks", ".toggles", ".details", ".legend"]) root.querySelector(name).hidden = isEmpty;
    this.describeResting();
  }

  // Selection and outline as Python says them, unless it does not know of the reader's latest pick yet.
  obey(before, isOtherText) {
    const { data } = this;
    const { awaited } = this;
    if (isOtherText || !awaited || data.heard === awaited.stamp || performance.now() > awaited.until) {
      this.awaited = null;
      const isNews = isOtherText || (data.selected !== before.selected && data.selected !== this.selected);
      if (data.selected !== this.selected) this.select(data.selected);
      if (isNews && data.selected !== null) this.reveal(data.selected);
    }
    if (data.block === before.block && !isOtherText) return;
    this.outlineBlock(data.block);
    const span = this.model.spanOf(data.block);
    if (span && data.selected === null) this.reveal(...span);
  }

  outlineBlock(block) {
    const span = this.model.spanOf(block);
    this.outline.hidden = !span;
    if (!span) return;
    this.outline.style.left = `${this.x[span[0]]}px`;
    this.outline.style.width = `${this.x[span[1] + 1] - this.x[span[0]]}px`;
  }

  point(index) {
    this.pointed = index;
    this.describeResting();
  }

  describeResting() {
    const resting = this.focused() ? this.current : (this.selected ?? -1);
    this.describe(this.pointed >= 0 ? this.pointed : resting);
  }

  describe(index) {
    this.details.replaceChildren(...detailsOf(this.model, index));
  }

  // Moving and picking ------------------------------------------------------------------------------------------------

  focused() {
    return this.track.contains(this.track.getRootNode().activeElement);
  }

  focus(index) {
    this.column(this.current)?.setAttribute("tabindex", "-1");
    this.current = Math.min(Math.max(index, 0), this.model.count - 1);
    this.fill(this.current);
    this.column(this.current).setAttribute("tabindex", "0");
    this.reveal(this.current);
    this.column(this.current).focus({ preventScroll: true });
  }

  select(index) {
    this.column(this.selected ?? -1)?.setAttribute("aria-selected", "false");
    this.selected = index;
    if (index !== null && !this.focused()) {
      this.column(this.current)?.setAttribute("tabindex", "-1");
      this.current = index;
    }
    this.fill(index ?? this.current);
    this.column(this.current)?.setAttribute("tabindex", "0");
    this.column(index ?? -1)?.setAttribute("aria-selected", "true");
    this.describeResting();
  }

  pick(index) {
    if (!this.data.pickable) return;
    this.awaited = { stamp: `${Date.now()}-${Math.random()}`, until: performance.now() + UNHEARD_MS };
    this.select(index);
    this.send({ atom: index, stamp: this.awaited.stamp });
  }

  onClick(event) {
    const index = indexOf(event.target);
    if (index < 0) return;
    this.focus(index);
    this.pick(index === this.selected ? null : index);
  }

  onKey(event) {
    if (event.altKey || event.metaKey || indexOf(event.target) < 0) return;
    if (event.key === "Enter" || event.key === " ") this.pick(this.current === this.selected ? null : this.current);
    else if (event.key === "Escape") {
      if (this.selected !== null) this.pick(null);
    } else {
      const next = this.target(event.key, event.ctrlKey);
      if (next === null) return;
      this.focus(next);
    }
    event.preventDefault(); // no scrolling by Space or an arrow
    event.stopPropagation(); // and no shortcut of the page
  }

  target(key, ctrl) {
    const { model, current } = this;
    if (ctrl && !key.startsWith("Arrow")) return null; // the browser's own
    switch (key) {
      case "ArrowRight": return ctrl ? model.markFrom(current, 1) : current + 1;
      case "ArrowLeft": return ctrl ? model.markFrom(current, -1) : current - 1;
      case "n": return model.markFrom(current, 1);
      case "p": return model.markFrom(current, -1);
      case "PageDown": return model.blockFrom(current, 1);
      case "PageUp": return model.blockFrom(current, -1);
      case "Home": return 0;
      case "End": return model.count - 1;
      default: return null;
    }
  }

  onGo(event) {
    const direction = Number(event.target.dataset?.go ?? 0);
    if (direction) this.focus(this.model.markFrom(this.current, direction));
  }

  onToggle(event) {
    const row = event.target.dataset?.row;
    if (!row) return;
    if (!this.hidden.delete(row)) this.hidden.add(row);
    event.target.setAttribute("aria-pressed", String(!this.hidden.has(row)));
    const left = this.scroller.scrollLeft;
    this.lay();
    this.scroller.scrollLeft = left;
    this.look();
  }

  onMap(event) {
    if (!(event.buttons & 1)) return;
    if (event.type === "pointerdown") this.map.setPointerCapture(event.pointerId);
    const box = this.map.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * this.width;
    this.scroller.scrollLeft = place - this.seenWidth() / 2;
    event.preventDefault();
  }

  // A strip that was made out of sight, as in a closed tab, gets its places when it is seen.
  onResize() {
    const wasShown = this.isShown;
    this.isShown = this.scroller.clientWidth > 0;
    if (!this.model || !this.isShown) return;
    const heldFocus = this.focused();
    if (charWidth(this.root) !== this.ch) this.lay();
    this.look();
    if (heldFocus) this.focus(this.current);
    const span = this.selected === null ? this.model.spanOf(this.data.block) : [this.selected];
    if (!wasShown && span) this.reveal(...span);
  }
}

function indexOf(target) {
  return indices.get(target) ?? -1;
}
