// The list and the grid in the browser: it filters and moves by itself; which cell is selected is Python's word. Names and
// words are untrusted and reach the page as text only.

const SETTLED_MS = 200; // arrow keys pass molecules by until they rest on one

export function mount(shell) {
  return new Molecules(shell);
}

class Molecules {
  constructor(shell) {
    this.shell = shell;
    this.root = shell.root.querySelector(".molecules");
    this.list = this.root.querySelector(".cells");
    this.search = this.root.querySelector("input");
    this.cells = [];
    this.search.addEventListener("input", () => this.sift());
    this.list.addEventListener("click", (event) => this.onClick(event));
    this.root.addEventListener("keydown", (event) => this.onKey(event));
  }

  destroy() {
    clearTimeout(this.timer);
  }

  update(message) {
    if (message.large) this.take(message);
    if (this.holds !== message.holds) return false;
    this.isList = !message.height;
    this.root.classList.toggle("narrow", this.isList);
    this.list.style.maxHeight = message.height ? `${message.height}px` : "";
    this.mark(message.selected);
    return true;
  }

  take({ large, holds }) {
    this.large = large;
    this.holds = holds;
    this.root.querySelector(".label").textContent = large.label;
    this.root.querySelector(".legend").textContent = large.legend;
    this.root.querySelector("datalist").replaceChildren(...large.ready.map((words) => new Option(words, words)));
    this.list.setAttribute("aria-label", large.label);
    this.cells = large.cells.map((cell, i) => this.newCell(cell, i));
    this.selected = undefined; // none of the new ones is marked
    this.list.replaceChildren(...this.cells);
    this.sift();
  }

  newCell({ name, drawing, lines, about, colour }, i) {
    const cell = make("div", "cell");
    cell.setAttribute("role", "option");
    cell.setAttribute("aria-selected", "false");
    cell.tabIndex = -1;
    cell.dataset.place = i;
    const picture = this.large.drawings[drawing];
    const image = make(picture ? "img" : "div", "picture");
    if (picture) Object.assign(image, { alt: "", loading: "lazy", decoding: "async", src: picture });
    const words = make("div", "words", "", [make("div", "name", name), ...lines.map(newLine)]);
    if (colour) words.lastChild.prepend(makeFilled("swatch", colour));
    cell.append(image, words);
    cell.title = [name, about].filter(Boolean).join("\n");
    cell.setAttribute("aria-label", cell.title.replaceAll("\n", ", "));
    const shown = lines.map((parts) => parts.map(([text]) => text).join(" "));
    cell.found = [cell.title, ...shown].join("\n").toLowerCase();
    return cell;
  }

  sift() {
    const words = this.search.value.trim().toLowerCase();
    for (const cell of this.cells) cell.hidden = !cell.found.includes(words);
    const [shown, all] = [this.seen().length, this.cells.length];
    const more = this.large.total > all ? `first ${all} of ${this.large.total.toLocaleString("en")}` : `${all}`;
    this.root.querySelector(".count").textContent = shown === all ? more : `${shown} of ${more}`;
    this.root.querySelector(".empty").hidden = shown > 0;
    this.letTabReachOne();
  }

  // Picking -----------------------------------------------------------------------------------------------------------

  mark(place) {
    if (place === this.selected) return;
    this.cells[this.selected ?? -1]?.setAttribute("aria-selected", "false");
    this.selected = place;
    const cell = this.cells[place ?? -1];
    cell?.setAttribute("aria-selected", "true");
    if (cell) this.reveal(cell);
    this.letTabReachOne();
  }

  // Inside of the list: the page stays where it is.
  reveal(cell) {
    const [list, box] = [this.list, cell].map((element) => element.getBoundingClientRect());
    if (box.top < list.top || box.bottom > list.bottom) this.list.scrollTop += box.top - list.top - box.height;
  }

  letTabReachOne() {
    for (const cell of this.cells) cell.tabIndex = -1;
    const first = this.cells[this.selected ?? -1]?.hidden === false ? this.cells[this.selected] : this.seen()[0];
    if (first) first.tabIndex = 0;
  }

  seen() {
    return this.cells.filter((cell) => !cell.hidden);
  }

  pick(cell) {
    clearTimeout(this.timer);
    const place = Number(cell.dataset.place);
    this.mark(place);
    sendPick(this.shell, place);
  }

  onClick(event) {
    const cell = event.target.closest(".cell");
    if (cell) this.pick(cell);
  }

  // From the field the list is one key away.
  onKey(event) {
    const isField = event.target === this.search;
    const cell = event.target.closest(".cell");
    const steps = { ArrowDown: 1, ArrowUp: -1, ...(isField ? {} : { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }) };
    const by = steps[event.key];
    if ((!cell && !isField) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (cell && (event.key === "Enter" || event.key === " ")) this.pick(cell);
    else if (by) this.step(cell, by);
    else return;
    event.preventDefault(); // no scrolling by an arrow
    event.stopPropagation();
  }

  step(cell, by) {
    const seen = this.seen();
    const next = seen[Math.min(Math.max(seen.indexOf(cell) + by, 0), seen.length - 1)];
    if (!next) return;
    next.focus({ preventScroll: true });
    this.reveal(next);
    clearTimeout(this.timer);
    if (this.isList && next !== cell) this.timer = setTimeout(() => this.pick(next), SETTLED_MS);
  }
}

function newLine(parts) {
  const line = make("div", "line");
  line.append(...parts.map(([words, kind]) => make("span", kind ? `mark ${kind}` : "", words)));
  return line;
}
