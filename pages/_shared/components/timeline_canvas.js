// Timelines in the browser: the view, what is selected and said. timeline_draw.js and timeline_rows.js, the rest of this
// module, draw and hold the data. Python is told a view only when it has rested. Names reach the page as text only.

const LEAST_MS = 0.001;
const REST_MS = 300;
const UNHEARD_MS = 5000; // how long a view outlives messages that do not know of it
const DRAG_PX = 4; // less is a click
const ZOOM = 1.4; // of a key
const PAN = 0.15; // of the view's width
const HINT = "Click a column, a phase, a pause or an event to see what it is.";

export function mount(shell) {
  return new Timeline(shell);
}

class Timeline {
  constructor(shell) {
    this.shell = shell;
    this.root = shell.root.querySelector(".timeline");
    this.canvas = this.root.querySelector(".stage > canvas");
    this.tip = this.root.querySelector(".tip");
    this.painter = new Painter(this.canvas, this.root);
    this.view = null; // [from, to] in ms of the axis
    this.tracks = [];
    this.families = [];
    this.message = { shifts: [], details: [], most: 1 };
    this.alone = null; // the one family that is shown
    this.selected = null;
    this.drag = null; // { x, view, isRange, hasMoved }
    this.pointer = null; // x where it is over the canvas
    this.timer = null; // runs while the view is moved
    this.awaited = null; // { window, until }: a view that Python did not name yet
    this.frame = null;
    this.sizes = new ResizeObserver(() => this.layOut());
    this.sizes.observe(this.canvas.parentElement);
    this.listen();
  }

  listen() {
    const on = (name, act, more) => this.canvas.addEventListener(name, (event) => act.call(this, event), more);
    on("wheel", this.onWheel, { passive: false });
    on("pointerdown", this.onPress);
    on("pointermove", this.onMove);
    on("pointerup", this.onRelease);
    on("pointercancel", this.endDrag);
    on("pointerleave", this.onLeave);
    on("dblclick", this.whole);
    on("keydown", this.onKey);
    this.root.querySelector("[data-do=whole]").addEventListener("click", () => this.whole());
    this.root.querySelector("[data-do=pause]").addEventListener("click", () => this.toPause());
  }

  update(message) {
    if (message.large) this.take(message);
    if (this.holds !== message.holds) return false;
    this.message = { ...message, details: message.details.map((lanes) => lanes.map(takeLane)) };
    this.canvas.setAttribute("aria-label", message.label);
    this.hear(message.window);
    this.layOut();
    return true;
  }

  take({ large, holds }) {
    const isOther = large.tracks.map((track) => track.name).join() !== this.tracks.map((track) => track.name).join();
    this.holds = holds;
    this.families = large.families;
    this.tracks = large.tracks.map((track) => takeTrack(track, large.families));
    if (isOther) this.alone = this.selected = null;
    this.root.querySelector("[data-do=pause]").hidden = longestPause(this.tracks) === null;
    this.listFamilies();
    this.describe();
  }

  // Python's word, unless it is older than what the reader did since.
  hear(window) {
    const isOld = this.awaited && !isNear(window, this.awaited.window) && performance.now() < this.awaited.until;
    if (this.view && (isOld || this.timer !== null || this.drag)) return;
    this.awaited = null;
    this.view = window;
  }

  restyle() {
    this.painter.restyle();
    this.draw();
  }

  destroy() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.sizes.disconnect();
  }

  layOut() {
    if (!this.view || !this.canvas.parentElement.clientWidth) return;
    this.painter.fit(laidOut(this.tracks, this.message.details));
    this.paint();
  }

  draw() {
    this.frame ??= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    const { view, tracks, families, alone, selected, drag } = this;
    const range = drag?.isRange && drag.hasMoved ? [drag.from, drag.to] : null;
    this.painter.draw({ view, tracks, families, shifts: this.message.shifts, alone, selected, range });
    this.canvas.dataset.view = view.join(" ");
    this.canvas.dataset.lanes = this.painter.rows.map((row) => row.name).filter(Boolean).join(", ");
    this.root.querySelector("[data-do=whole]").disabled = isNear(view, [0, this.message.most]);
  }

  // The view -----------------------------------------------------------------------------------------------------------

  // Within the axis, as wide as it is where there is room; returns whether it changed.
  look(from, to) {
    const { most } = this.message;
    const width = Math.min(Math.max(to - from, Math.min(LEAST_MS, most)), most);
    const start = Math.min(Math.max(from, 0), most - width);
    if (isNear([start, start + width], this.view)) return false;
    this.view = [start, start + width];
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.rest(), REST_MS);
    this.draw();
    return true;
  }

  zoom(factor, at) {
    const [from, to] = this.view;
    const width = Math.min(Math.max((to - from) * factor, LEAST_MS), this.message.most);
    const start = at - ((at - from) / (to - from)) * width;
    return this.look(start, start + width);
  }

  pan(by) {
    return this.look(this.view[0] + by, this.view[1] + by);
  }

  whole() {
    return this.look(0, this.message.most);
  }

  toPause() {
    const { place, span } = longestPause(this.tracks);
    this.select({ kind: "span", track: place, lane: this.pauseLane(place), of: "pause", span });
    this.toSelected();
  }

  pauseLane(place) {
    return this.tracks[place].lanes.find((lane) => lane.kind === "pause").name;
  }

  // The view has rested: with no more digits than it needs, so that an address stays short.
  rest() {
    if (this.drag) return void (this.timer = setTimeout(() => this.rest(), REST_MS));
    this.timer = null;
    const { most } = this.message;
    const [from, to] = this.view;
    const digits = Math.min(6, Math.max(0, Math.ceil(3 - Math.log10(to - from))));
    const rounded = (time) => Math.min(most, Math.max(0, Number(time.toFixed(digits))));
    this.view = [rounded(from), most - to < 1e-6 * (to - from) ? most : rounded(to)];
    this.awaited = { window: this.view, until: performance.now() + UNHEARD_MS };
    this.shell.trigger("window", this.view);
    this.draw();
  }

  // Pointer and keys ---------------------------------------------------------------------------------------------------

  isFocused() {
    return this.canvas.getRootNode().activeElement === this.canvas;
  }

  // Before a click the wheel scrolls the page, as everywhere; and after, where there is no further out.
  onWheel(event) {
    const isAsked = event.ctrlKey || event.metaKey;
    if (!isAsked && !this.isFocused()) return;
    const pixels = event.deltaMode === 1 ? 16 : 1;
    const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    const isPan = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const [from, to] = this.view;
    const hasMoved = isPan
      ? this.pan(((across * pixels) / this.painter.plot) * (to - from))
      : this.zoom(Math.exp(event.deltaY * pixels * 0.002), this.painter.timeAt(event.offsetX));
    if (hasMoved || isAsked) event.preventDefault();
  }

  onPress(event) {
    if (event.button !== 0) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    const isRange = event.shiftKey || event.offsetY < AXIS_PX;
    this.drag = { x: event.offsetX, view: this.view, isRange, hasMoved: false };
  }

  onMove(event) {
    this.pointer = event.offsetX;
    const { drag } = this;
    if (!drag) return this.point(event);
    if (!drag.hasMoved && Math.abs(event.offsetX - drag.x) < DRAG_PX) return;
    drag.hasMoved = true;
    this.tip.hidden = true;
    this.canvas.classList.toggle("drags", !drag.isRange);
    if (drag.isRange) [drag.from, drag.to] = [drag.x, event.offsetX].map((x) => this.painter.timeAt(x));
    else {
      const by = ((drag.x - event.offsetX) / this.painter.plot) * (drag.view[1] - drag.view[0]);
      this.look(drag.view[0] + by, drag.view[1] + by);
    }
    this.draw();
  }

  onRelease(event) {
    const { drag } = this;
    this.endDrag();
    if (!drag) return;
    if (!drag.hasMoved) this.select(this.painter.itemAt(event.offsetX, event.offsetY));
    else if (drag.isRange) this.look(Math.min(drag.from, drag.to), Math.max(drag.from, drag.to));
  }

  endDrag() {
    this.drag = null;
    this.canvas.classList.remove("drags");
    this.draw();
  }

  onLeave() {
    this.pointer = null;
    this.tip.hidden = true;
  }

  point(event) {
    const item = this.painter.itemAt(event.offsetX, event.offsetY);
    this.tip.hidden = item === null;
    if (item === null) return;
    const [[, name], ...rest] = this.facts(item);
    this.tip.textContent = [name, ...rest.slice(0, 3).map((fact) => fact.join(" "))].join("\n");
    const isRight = event.offsetX > this.painter.width * 0.6;
    this.tip.style.left = isRight ? "" : `${event.offsetX + 14}px`;
    this.tip.style.right = isRight ? `${this.painter.width - event.offsetX + 14}px` : "";
    this.tip.style.top = `${event.offsetY + 14}px`;
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.act(event.key.toLowerCase())) return;
    event.preventDefault(); // no scrolling by an arrow
    event.stopPropagation(); // and no shortcut of the page
  }

  // Whether the key means something here.
  act(key) {
    const [from, to] = this.view;
    const isOver = this.pointer !== null && this.pointer > this.painter.left;
    const at = isOver ? this.painter.timeAt(this.pointer) : (from + to) / 2;
    const acts = {
      w: () => this.zoom(1 / ZOOM, at),
      s: () => this.zoom(ZOOM, at),
      a: () => this.pan(-PAN * (to - from)),
      d: () => this.pan(PAN * (to - from)),
      n: () => this.step(1),
      p: () => this.step(-1),
      arrowdown: () => this.stepRow(1),
      arrowup: () => this.stepRow(-1),
      f: () => this.toSelected(),
      0: () => this.whole(),
      escape: () => this.select(null),
    };
    const same = { "+": "w", "=": "w", "-": "s", arrowleft: "a", arrowright: "d", ".": "n", ",": "p", enter: "f" };
    const act = acts[same[key] ?? key];
    act?.();
    return act !== undefined;
  }

  // Selection ----------------------------------------------------------------------------------------------------------

  select(item) {
    this.selected = item;
    this.describe();
    this.draw();
  }

  rowOf({ kind, track, lane, span }) {
    const isIts = (row) => row.lane?.name === lane && row.spans.some((other) => isSame(other, span));
    const holds = kind === "share" ? (row) => row.kind === "share" : isIts;
    return this.painter.rows.findIndex((row) => row.track === track && holds(row));
  }

  // The middle of a selection on the axis, or of the view without one.
  momentOf(item) {
    if (!item) return (this.view[0] + this.view[1]) / 2;
    const middle = item.kind === "share" ? (item.from + item.to) / 2 : item.span.start + item.span.dur / 2;
    return middle - this.message.shifts[item.track];
  }

  step(by) {
    const { selected, painter } = this;
    const row = painter.rows[selected ? this.rowOf(selected) : -1];
    if (!row) return this.stepRow(1);
    if (row.kind === "share") return this.pick(row, this.momentOf(selected) + (by * (this.view[1] - this.view[0])) / 50);
    const at = row.spans.findIndex((span) => isSame(span, selected.span)) + by;
    if (row.spans[at]) this.show({ ...selected, span: row.spans[at] });
  }

  stepRow(by) {
    const { rows } = this.painter;
    let at = (this.selected ? this.rowOf(this.selected) : -1) + by;
    while (rows[at] && (rows[at].kind === "head" || rows[at].spans?.length === 0)) at += by;
    const from = this.selected && this.isInView(this.selected) ? this.selected : null;
    if (rows[at]) this.pick(rows[at], this.momentOf(from));
  }

  // What a row has at a moment or nearest to it; of a column the family that takes most.
  pick(row, time) {
    const shift = this.message.shifts[row.track];
    if (row.kind === "share") {
      const place = Math.min(Math.max((time - this.view[0]) / (this.view[1] - this.view[0]), 0), 0.9999);
      const at = Math.floor(place * row.columns.length);
      const column = row.columns[at];
      return this.show(this.painter.columnItem(row, at, column.indexOf(Math.max(...column))));
    }
    const away = (span) => Math.max(span.start - shift - time, time - span.start - span.dur + shift, 0);
    const span = row.spans.reduce((one, other) => (away(other) < away(one) ? other : one));
    this.show({ kind: "span", track: row.track, lane: row.lane.name, of: row.lane.kind, span });
  }

  // Select, and bring into view.
  show(item) {
    this.select(item);
    const [time, width] = [this.momentOf(item), this.view[1] - this.view[0]];
    if (!this.isInView(item)) this.look(time - width / 2, time + width / 2);
  }

  isInView(item) {
    const half = (item.kind === "share" ? item.to - item.from : item.span.dur) / 2;
    const time = this.momentOf(item);
    return time + half >= this.view[0] && time - half <= this.view[1];
  }

  toSelected() {
    const { selected } = this;
    if (!selected) return;
    const length = selected.kind === "share" ? selected.to - selected.from : Math.max(selected.span.dur, LEAST_MS);
    this.look(this.momentOf(selected) - 1.5 * length, this.momentOf(selected) + 1.5 * length);
  }

  describe() {
    const rows = this.selected ? this.facts(this.selected) : [];
    const parts = rows.map(([name, value]) => {
      const fact = document.createElement("div");
      fact.append(newText("dt", name), newText("dd", value));
      return fact;
    });
    if (!parts.length) parts.push(newText("div", HINT, "hint"));
    this.root.querySelector(".facts").replaceChildren(...parts);
  }

  facts(item) {
    return factsOf(item, this.tracks[item.track], this.families, this.message.shifts[item.track]);
  }

  // Families -----------------------------------------------------------------------------------------------------------

  listFamilies() {
    const items = this.families.map((family, place) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(this.alone === place));
      button.append(this.swatch(family, place), newText("span", family.name));
      button.addEventListener("click", () => this.showAlone(place));
      item.append(button);
      return item;
    });
    this.root.querySelector(".families").replaceChildren(...items);
  }

  swatch(family, place) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 14;
    const context = canvas.getContext("2d");
    for (const fill of [family.colour, this.painter.pattern(place)]) {
      context.fillStyle = fill;
      context.fillRect(0, 0, 14, 14);
    }
    return canvas;
  }

  showAlone(place) {
    this.alone = this.alone === place ? null : place;
    const buttons = this.root.querySelectorAll(".families button");
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === this.alone)));
    this.draw();
  }
}
