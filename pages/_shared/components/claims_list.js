// Claims in the browser: a list box with a group a section. All rows are there from the first message on; the filters
// send only which of them are shown. Statements and reasons are written as text, never as markup.

const UNHEARD_MS = 3000; // how long a click outlives messages that do not know of it
const EMPTY = { rows: [], groups: [], label: "" };

export function mount(shell) {
  return new Claims(shell);
}

class Claims {
  constructor(shell) {
    this.shell = shell;
    this.list = shell.root.querySelector(".list");
    this.none = shell.root.querySelector(".none");
    this.large = EMPTY;
    this.rows = []; // elements, by place
    this.heads = []; // { group, count, places }
    this.shown = []; // places, in order
    this.current = null; // the one row that Tab reaches
    this.selected = null;
    this.pick = null; // { stamp, until }: a click that Python did not name yet
    this.list.addEventListener("click", (event) => this.onClick(event));
    this.list.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(message) {
    if (message.large) this.take(message);
    if (this.holds !== message.holds) return false;
    this.list.style.setProperty("--height", `${message.height}px`);
    const filtered = this.filter(message.shown);
    if (this.isHeard(message)) this.select(message.selected, filtered);
    return true;
  }

  isHeard(message) {
    if (this.pick && (message.heard === this.pick.stamp || performance.now() > this.pick.until)) this.pick = null;
    return this.pick === null;
  }

  // Rows --------------------------------------------------------------------------------------------------------------

  take({ large, holds }) {
    this.large = large;
    this.holds = holds;
    this.shown = [];
    this.current = this.selected = null;
    this.rows = large.rows.map((row, place) => newRow(row, place));
    this.heads = large.groups.map((group) => newGroup(group, this.rows));
    this.list.setAttribute("aria-label", large.label);
    this.list.replaceChildren(...this.heads.map((head) => head.group));
  }

  // Whether other rows than before are shown.
  filter(shown) {
    const same = shown.length === this.shown.length && shown.every((place, at) => place === this.shown[at]);
    if (same && shown.length) return false;
    this.shown = shown;
    const left = new Set(shown);
    this.rows.forEach((row, place) => (row.hidden = !left.has(place)));
    for (const { group, count, places } of this.heads) {
      const here = places.filter((place) => left.has(place)).length;
      group.hidden = here === 0;
      count.textContent = here === places.length ? `${here}` : `${here} of ${places.length}`;
    }
    this.list.hidden = shown.length === 0;
    this.none.hidden = shown.length > 0;
    if (!left.has(this.current)) this.setCurrent(shown[0] ?? null);
    return true;
  }

  select(place, filtered) {
    const isNew = place !== this.selected;
    this.rows[this.selected ?? -1]?.setAttribute("aria-selected", "false");
    this.selected = place ?? null;
    this.rows[this.selected ?? -1]?.setAttribute("aria-selected", "true");
    if (this.selected === null || this.rows[this.selected].hidden) {
      if (filtered) this.list.scrollTop = 0;
      return;
    }
    if (!this.focused()) this.setCurrent(this.selected);
    if (isNew || filtered) requestAnimationFrame(() => this.reveal(this.selected, 0.3));
  }

  // Inside the list only: the page must not jump.
  // `below` is how much of the list is kept above a row that was out of sight.
  reveal(place, below = 0) {
    const row = this.rows[place ?? -1];
    if (!row) return;
    const { list } = this;
    const head = row.parentElement.firstElementChild.offsetHeight;
    const top = row.offsetTop - head;
    const bottom = row.offsetTop + row.offsetHeight;
    const room = below * list.clientHeight;
    if (top < list.scrollTop) list.scrollTop = top - room;
    else if (bottom > list.scrollTop + list.clientHeight)
      list.scrollTop = Math.min(top, Math.max(top - room, bottom - list.clientHeight));
  }

  // Moving and picking ------------------------------------------------------------------------------------------------

  placeOf(target) {
    const row = target.closest?.(".row");
    return row ? Number(row.dataset.place) : null;
  }

  focused() {
    const active = this.list.getRootNode().activeElement;
    return active !== null && this.list.contains(active);
  }

  setCurrent(place) {
    this.rows[this.current ?? -1]?.setAttribute("tabindex", "-1");
    this.current = place;
    this.rows[place ?? -1]?.setAttribute("tabindex", "0");
  }

  focus(place) {
    this.setCurrent(place);
    this.rows[place]?.focus({ preventScroll: true });
    this.reveal(place);
  }

  onClick(event) {
    const place = this.placeOf(event.target);
    if (place === null) return;
    this.focus(place);
    if (place !== this.selected) this.choose(place);
  }

  choose(place) {
    this.pick = { stamp: `${Date.now()}-${Math.random()}`, until: performance.now() + UNHEARD_MS };
    this.select(place, false);
    this.shell.trigger("picked", { atom: place, stamp: this.pick.stamp });
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || this.placeOf(event.target) === null) return;
    const next = this.target(event.key);
    if (event.key === "Enter" || event.key === " ") this.choose(this.current);
    else if (event.key === "Escape" && this.selected !== null) this.choose(null);
    else if (next !== null) this.focus(next);
    else return;
    event.preventDefault(); // no scrolling by Space or an arrow
    event.stopPropagation(); // and no shortcut of the page
  }

  target(key) {
    const at = this.shown.indexOf(this.current);
    const away = (rows) => this.shown[Math.min(Math.max(at + rows, 0), this.shown.length - 1)];
    switch (key) {
      case "ArrowDown": return away(1);
      case "ArrowUp": return away(-1);
      case "PageDown": return away(8);
      case "PageUp": return away(-8);
      case "Home": return this.shown[0];
      case "End": return this.shown.at(-1);
      default: return null;
    }
  }
}

function newGroup({ name, places }, rows) {
  const group = newElement("div", "group");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", name);
  const head = newElement("div", "head", name);
  head.setAttribute("aria-hidden", "true"); // the group's name says it
  const count = newElement("span", "count");
  head.append(count);
  group.append(head, ...places.map((place) => rows[place]));
  return { group, count, places };
}

function newRow(row, place) {
  const element = newElement("div", "row");
  element.setAttribute("role", "option");
  element.setAttribute("aria-selected", "false");
  element.tabIndex = -1;
  element.dataset.place = place;
  element.dataset.verdict = row.verdict;
  const over = newElement("div", "over");
  over.append(newElement("span", "verdict", `${row.sign} ${row.verdict}`), newElement("span", "subject", row.subject));
  const main = newElement("div", "main");
  main.append(over, newText("statement", row.statement));
  if (row.reason) main.append(newText("reason", row.reason));
  element.append(main, newFigure(row.reported, []), newFigure(row.measured, [row.apart, row.source]));
  return element;
}

function newFigure(value, about) {
  const figure = newElement("div", "figure");
  figure.append(newElement("span", "value", value || "–"));
  for (const words of about) if (words) figure.append(newElement("span", "about", words));
  return figure;
}

function newElement(tag, name, text) {
  const element = document.createElement(tag);
  element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

// What stands in backticks is code; a text with an odd one is shown as it is.
function newText(name, text) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return newElement("div", name, text);
  const element = newElement("div", name);
  element.append(...parts.map((part, at) => (at % 2 ? newElement("code", "", part) : part)));
  return element;
}
