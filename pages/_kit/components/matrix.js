// The table of LPs and models in the browser. Names are anybody's and reach the page as text only; shares are from 0 to 1.

const GREY = "color-mix(in srgb, var(--muted) 50%, var(--ground))";
const PARTS = {
  template: "var(--wrong)",
  prefill: "var(--copy)",
  forward: "color-mix(in srgb, var(--copy) 45%, var(--ground))",
  constraint: "var(--free)",
  sampling: "var(--junk)",
  unexplained: GREY,
  "not counted": GREY,
};

export function mount(shell) {
  return new Matrix(shell);
}

class Matrix {
  constructor(shell) {
    this.shell = shell;
    this.table = shell.root.querySelector("table");
    this.table.addEventListener("click", (event) => this.onClick(event));
    this.table.addEventListener("keydown", (event) => this.onKey(event));
    for (const kind of ["focusin", "pointerover"]) this.table.addEventListener(kind, (event) => this.legend(event.target));
  }

  update(message) {
    if (message.large) {
      this.holds = message.holds;
      this.draw(message.large);
    }
    return this.holds === message.holds;
  }

  draw({ label, heads, rows }) {
    this.table.setAttribute("aria-label", label);
    const head = make("tr", "", "", [make("td", "corner"), ...heads.map((cell) => this.head(cell, "col"))]);
    const body = rows.map(({ head: name, cells }) => {
      const boxes = cells.map((cell) => (cell ? this.cell(cell) : make("td", "empty", "no run")));
      return make("tr", "", "", [this.head(name, "row"), ...boxes]);
    });
    this.table.replaceChildren(make("thead", "", "", [head]), make("tbody", "", "", body));
    this.parts = rows.flatMap(({ cells }) => cells.flatMap((cell) => cell?.parts ?? []));
    this.cells = new Map(rows.flatMap(({ cells }) => cells.filter(Boolean).map((cell) => [`${cell.place}`, cell.parts])));
    this.legend(this.table);
  }

  // What the colours of the time mean, with the figures of the cell that is pointed at or has the keyboard.
  legend(target) {
    const used = new Set(this.parts.map(([part]) => part));
    const parts = this.cells.get(target.closest("[data-place]")?.dataset.place) ?? [];
    const figures = new Map(parts.map(([part, , figure]) => [part, figure]));
    const items = Object.keys(PARTS).filter((part) => used.has(part)).map((part) => {
      const name = part === "constraint" ? "the LP" : part;
      return make("span", "part", "", [piece(part), `${name} ${figures.get(part) ?? ""}`.trim()]);
    });
    this.shell.root.querySelector(".legend").replaceChildren(...(items.length ? ["Where its time goes: "] : []), ...items);
  }

  head({ words, place, title }, scope) {
    const cell = make("th", "", "", [this.button(words, place, title)]);
    cell.scope = scope;
    return cell;
  }

  cell(cell) {
    const button = this.button("", cell.place, cell.title);
    const swatch = cell.colour ? [makeFilled("swatch", cell.colour)] : []; // of the run, as in the charts
    const seconds = make("b", "", "", [...swatch, cell.seconds]);
    button.append(make("span", "pace", "", [seconds, make("span", "faster", cell.faster)]));
    button.append(...cell.bars.map(newBar));
    const time = make("span", "time");
    time.setAttribute("aria-hidden", "true");
    time.append(...cell.parts.map(([part, share]) => piece(part, `${100 * share}%`)));
    if (cell.parts.length) button.append(time);
    return make("td", `cell ${cell.tone}`, "", [button]);
  }

  button(words, place, title) {
    const button = make("button", "open", words);
    button.type = "button";
    button.title = title;
    button.disabled = place === null;
    if (place !== null) button.dataset.place = place;
    return button;
  }

  onClick(event) {
    const button = event.target.closest("[data-place]");
    if (button) sendPick(this.shell, Number(button.dataset.place));
  }

  // Arrows move between the cells of the table, as in any grid.
  onKey(event) {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const cell = event.target.closest("td, th");
    if (!by || !cell || event.altKey || event.ctrlKey || event.metaKey) return;
    const rows = [...this.table.rows];
    let [row, column] = [rows.indexOf(cell.parentElement), cell.cellIndex];
    do [row, column] = [row + by[0], column + by[1]];
    while (rows[row]?.cells[column] && !rows[row].cells[column].querySelector("button:enabled"));
    rows[row]?.cells[column]?.querySelector("button").focus();
    event.preventDefault();
    event.stopPropagation();
  }
}

function newBar({ words, value, low, high, figure }) {
  const track = make("span", "track", "", [make("i", "fill")]);
  if (value === null) track.classList.add("unknown");
  else {
    track.firstChild.style.width = `${100 * value}%`;
    if (low !== null) {
      const interval = make("i", "interval");
      interval.style.left = `${100 * low}%`;
      interval.style.width = `${100 * (high - low)}%`;
      track.append(interval);
    }
  }
  return make("span", `bar ${words}`, "", [make("span", "words", words), track, make("span", "figure", figure)]);
}

function piece(part, width = "") {
  const mark = makeFilled(width ? "" : "swatch", PARTS[part] ?? GREY);
  mark.style.width = width;
  return mark;
}
