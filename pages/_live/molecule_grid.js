// The grid in the browser: it filters and selects by itself; which cell is selected is Python's word. Names are untrusted
// and reach the page as text only.

const PARTS = [["T", "text"], ["S", "stereo"], ["G", "geometry"]];
const USABLE = 3; // the place in a lane's code
const SIGNS = { r: "✓", d: "!", w: "✗", "-": "–" };
const WORDS = { r: "right", d: "damaged", w: "wrong", "-": "not judged" };
const FILTERS = {
  all: () => true,
  usable: (code) => code[USABLE] !== "r",
  text: (code) => code[0] !== "r",
  stereo: (code) => code[1] === "w",
  geometry: (code) => code[2] === "w",
};

export function mount(shell) {
  return new Grid(shell);
}

class Grid {
  constructor(shell) {
    this.shell = shell;
    this.root = shell.root.querySelector(".grid");
    this.list = this.root.querySelector(".cells");
    this.select = this.root.querySelector("select");
    this.cells = [];
    this.filter = "all";
    this.root.querySelector(".filters").addEventListener("click", (event) => this.onFilter(event));
    this.select.addEventListener("change", () => this.sift());
    this.list.addEventListener("click", (event) => this.onClick(event));
    this.list.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(message) {
    if (message.large) this.take(message);
    if (this.holds !== message.holds) return false;
    this.list.style.maxHeight = `${message.height}px`;
    this.mark(message.selected);
    return true;
  }

  take({ large, holds }) {
    this.large = large;
    this.holds = holds;
    this.root.querySelector(".label").textContent = large.label;
    this.list.setAttribute("aria-label", large.label);
    this.select.replaceChildren(new Option("any lane", ""), ...large.lanes.map((lane, i) => new Option(lane, i)));
    this.select.parentElement.hidden = large.lanes.length < 2;
    this.cells = large.cells.map((cell, i) => this.newCell(cell, i));
    this.list.replaceChildren(...this.cells);
    this.sift();
  }

  newCell([name, drawing, ...codes], i) {
    const cell = newElement("div", "cell");
    cell.setAttribute("role", "option");
    cell.setAttribute("aria-selected", "false");
    cell.tabIndex = -1;
    cell.dataset.place = i;
    const picture = this.large.drawings[drawing];
    const image = newElement(picture ? "img" : "div", "picture");
    if (picture) Object.assign(image, { alt: "", loading: "lazy", decoding: "async", src: picture });
    cell.append(image, newElement("div", "name", name), ...codes.map((code, lane) => newLane(code, lane)));
    cell.title = [name, ...codes.map((code, lane) => `${this.large.lanes[lane]}: ${said(code)}`)].join("\n");
    cell.setAttribute("aria-label", cell.title.replaceAll("\n", ", "));
    return cell;
  }

  // Filters -----------------------------------------------------------------------------------------------------------

  onFilter(event) {
    const filter = event.target.dataset?.filter;
    if (!filter) return;
    this.filter = filter;
    this.sift();
  }

  sift() {
    const lane = this.select.value;
    const passes = (code) => code !== "" && FILTERS[this.filter](code);
    let shown = 0;
    this.large.cells.forEach(([, , ...codes], i) => {
      const isShown = this.filter === "all" || (lane === "" ? codes : [codes[lane]]).some(passes);
      this.cells[i].hidden = !isShown;
      shown += isShown;
    });
    const all = this.cells.length;
    this.root.querySelector(".count").textContent = shown === all ? `${all}` : `${shown} of ${all}`;
    this.root.querySelector(".empty").hidden = shown > 0;
    for (const button of this.root.querySelectorAll("[data-filter]"))
      button.setAttribute("aria-pressed", String(button.dataset.filter === this.filter));
    this.letTabReachOne();
  }

  // Picking -----------------------------------------------------------------------------------------------------------

  mark(place) {
    if (place === this.selected) return;
    this.cells[this.selected ?? -1]?.setAttribute("aria-selected", "false");
    this.selected = place;
    this.cells[place ?? -1]?.setAttribute("aria-selected", "true");
    this.letTabReachOne();
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
    const place = Number(cell.dataset.place);
    this.mark(place);
    this.shell.trigger("picked", { atom: place, stamp: `${Date.now()}-${Math.random()}` });
  }

  onClick(event) {
    const cell = event.target.closest(".cell");
    if (cell) this.pick(cell);
  }

  onKey(event) {
    const cell = event.target.closest(".cell");
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") this.pick(cell);
    else if (by) {
      const seen = this.seen();
      seen[Math.min(Math.max(seen.indexOf(cell) + by, 0), seen.length - 1)].focus();
    } else return;
    event.preventDefault(); // no scrolling by an arrow
    event.stopPropagation();
  }
}

function newElement(tag, name, text = "") {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}

function newLane(code, lane) {
  const line = newElement("div", "lane");
  line.append(newElement("span", "number", `${lane + 1}`));
  if (code === "") line.append("no result");
  else line.append(...PARTS.map(([letter], i) => newElement("span", `mark ${code[i]}`, `${letter}${SIGNS[code[i]]}`)));
  return line;
}

function said(code) {
  return code === "" ? "no result" : PARTS.map(([, part], i) => `${part} ${WORDS[code[i]]}`).join(", ");
}
