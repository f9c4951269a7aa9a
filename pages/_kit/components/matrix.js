// The table of LPs and models in the browser. Names are anybody's and reach the page as text only; shares are from 0 to 1.

const PARTS = ["template", "prefill", "forward", "constraint", "sampling", "unexplained", "not counted"];

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
    const head = element("tr");
    head.append(element("td", "corner"), ...heads.map((cell) => this.head(cell, "col")));
    const body = rows.map(({ head: name, cells }) => {
      const row = element("tr");
      row.append(this.head(name, "row"), ...cells.map((cell) => (cell ? this.cell(cell) : element("td", "empty", "no run"))));
      return row;
    });
    const top = element("thead");
    const rest = element("tbody");
    top.append(head);
    rest.append(...body);
    this.table.replaceChildren(top, rest);
    this.parts = rows.flatMap(({ cells }) => cells.flatMap((cell) => cell?.parts ?? []));
    this.cells = new Map(rows.flatMap(({ cells }) => cells.filter(Boolean).map((cell) => [`${cell.place}`, cell.parts])));
    this.legend(this.table);
  }

  // What the colours of the time mean, with the figures of the cell that is pointed at or has the keyboard.
  legend(target) {
    const used = new Set(this.parts.map(([part]) => part));
    const parts = this.cells.get(target.closest("[data-place]")?.dataset.place) ?? [];
    const figures = new Map(parts.map(([part, , figure]) => [part, figure]));
    const items = PARTS.filter((name) => used.has(name)).map((part) => {
      const item = element("span", "part");
      const name = part === "constraint" ? "the LP" : part;
      item.append(element("i", `p${PARTS.indexOf(part)}`), `${name} ${figures.get(part) ?? ""}`.trim());
      return item;
    });
    this.shell.root.querySelector(".legend").replaceChildren(...(items.length ? ["Where its time goes: "] : []), ...items);
  }

  head({ words, place, title }, scope) {
    const cell = element("th");
    cell.scope = scope;
    cell.append(this.button(words, place, title));
    return cell;
  }

  cell(cell) {
    const box = element("td", `cell ${cell.tone}`);
    const button = this.button("", cell.place, cell.title);
    const pace = element("span", "pace");
    const seconds = element("b", "", cell.seconds);
    if (cell.colour) {
      const swatch = element("i", "swatch"); // of the run, as in the charts
      swatch.style.background = cell.colour;
      seconds.prepend(swatch);
    }
    pace.append(seconds, element("span", "faster", cell.faster));
    button.append(pace);
    for (const bar of cell.bars) button.append(newBar(bar));
    const time = element("span", "time");
    time.setAttribute("aria-hidden", "true");
    for (const [part, share] of cell.parts) {
      const piece = element("i", `p${Math.max(0, PARTS.indexOf(part))}`);
      piece.style.width = `${100 * share}%`;
      time.append(piece);
    }
    if (cell.parts.length) button.append(time);
    box.append(button);
    return box;
  }

  button(words, place, title) {
    const button = element("button", "open", words);
    button.type = "button";
    button.title = title;
    button.disabled = place === null;
    if (place !== null) button.dataset.place = place;
    return button;
  }

  onClick(event) {
    const button = event.target.closest("[data-place]");
    if (button) this.shell.trigger("picked", { atom: Number(button.dataset.place), stamp: `${Date.now()}-${Math.random()}` });
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
  const bar = element("span", `bar ${words}`);
  const track = element("span", "track");
  track.append(element("i", "fill"));
  if (value === null) track.classList.add("unknown");
  else {
    track.firstChild.style.width = `${100 * value}%`;
    if (low !== null) {
      const interval = element("i", "interval");
      interval.style.left = `${100 * low}%`;
      interval.style.width = `${100 * (high - low)}%`;
      track.append(interval);
    }
  }
  bar.append(element("span", "words", words), track, element("span", "figure", figure));
  return bar;
}

function element(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}
