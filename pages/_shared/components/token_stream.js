// The strip of a text that is still being written. A message holds the chips from an index on; it can be used if what
// lies before that index is known here as it was when message `since` had come. Part of the module of token_strip.js.

const LISTS = ["pieces", "ids"];
const CODES = ["roles", "forced", "marks", "tints"];
const SPARSE_LISTS = ["blocks", "atoms", "starts", "ends"]; // an empty one has no value at all
const BY_INDEX = ["shown", "details", "notes"];
const END_PX = 24; // so near the end counts as there

export function mount(shell) {
  return new Stream(shell);
}

class Stream extends Strip {
  constructor(shell) {
    super(shell.root.querySelector(".strip"));
    this.send = (value) => shell.state("selected", value);
    this.atEnd = true;
    this.top = 0;
    this.atom = null; // under the pointer, in any view
    this.lit = []; // its chips
    this.onAtom = (event) => this.light(event.detail);
    globalThis.addEventListener("driftscope-atom", this.onAtom);
    this.list.classList.add("streaming");
    this.list.addEventListener("scroll", () => this.onScroll());
  }

  destroy() {
    globalThis.removeEventListener("driftscope-atom", this.onAtom);
  }

  light(atom) {
    this.atom = atom;
    for (const chip of this.lit) chip.classList.remove("lit");
    this.lit = atom === null ? [] : this.chips.filter((_, i) => this.data.atoms[i] === atom);
    for (const chip of this.lit) chip.classList.add("lit");
  }

  update(message) {
    const known = this.data.epoch === message.epoch;
    if (known && message.number <= this.data.number) return true; // it came twice
    const whole = message.from === 0 && !message.text?.[0];
    if (!whole && !(known && this.data.number >= message.since)) return false;
    const isDone = this.data.follow && !message.follow && this.atEnd && !this.focused();
    super.update(merged(this.data, message));
    this.light(this.atom); // new chips, and those that were dressed anew
    this.list.classList.toggle("writing", message.follow); // only then do chips flash, and is the height kept
    this.list.style.minHeight = message.follow ? this.list.style.maxHeight : "";
    if (isDone) this.list.scrollTop = this.top = 0; // a finished text is read from its beginning
    return true;
  }

  goesOn(before, kept, sameUpTo) {
    if (before.stream !== this.data.stream || !this.chips.length) return false;
    if (this.selected !== null && this.selected >= sameUpTo) this.unselect();
    this.setCurrent(Math.min(this.current, Math.max(0, sameUpTo - 1)));
    return true;
  }

  startOver(selected) {
    super.startOver(selected);
    this.top = 0;
    this.atEnd = true;
  }

  append(from) {
    super.append(from);
    this.follow();
  }

  follow() {
    if (!this.data.follow || !this.atEnd || this.focused()) return;
    this.list.scrollTop = this.list.scrollHeight;
    this.top = this.list.scrollTop;
  }

  // Up is the reader's doing; down to the end takes up following again.
  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.list;
    if (scrollHeight - scrollTop - clientHeight <= END_PX) this.atEnd = true;
    else if (scrollTop < this.top - 1) this.atEnd = false;
    this.top = scrollTop;
  }
}

// The data of the whole text, as the strip reads it.
function merged(before, message) {
  const { from } = message;
  const count = from + message.pieces.length;
  const data = { ...message, text: mergedText(before, message) };
  for (const name of LISTS) data[name] = before[name].slice(0, from).concat(message[name]);
  for (const name of CODES) data[name] = before[name].slice(0, from) + message[name];
  for (const name of SPARSE_LISTS) data[name] = sparse(before[name], message[name], from, count);
  for (const name of BY_INDEX) data[name] = indexed(before[name], message[name], from);
  return data;
}

function mergedText(before, { text }) {
  return text === null ? null : (before.text ?? "").slice(0, text[0]) + text[1];
}

function sparse(before, after, from, count) {
  if (!before.length && !after.length) return [];
  const all = new Array(count).fill(null);
  for (let i = 0; i < from; i++) all[i] = before[i] ?? null;
  after.forEach((value, i) => (all[from + i] = value));
  return all;
}

function indexed(before, after, from) {
  const all = {};
  for (const [i, value] of Object.entries(before)) if (Number(i) < from) all[i] = value;
  for (const [i, value] of Object.entries(after)) all[from + Number(i)] = value;
  return all;
}
