// The atom view in the browser. Rows and parts of the whole answer are drawn once, by the name of their content; a message
// says which are there and in what order. All text is untrusted and reaches the page as text. Arrow keys move: up and down by row, left and right by
// token; Enter selects what has the focus, Escape selects nothing.

const UNHEARD_MS = 3000; // how long a click outlives messages that do not know of it
const CLASSES = {
  f: "forced", j: "junk", c: "cut", b: "blocked", s: "shifted", r: "rare", n: "unwritten", l: "lost", x: "struck",
};
const WORDS = { f: "forced by the LP", j: "junk: not part of the three numbers", c: "the last before the cut" };

export function mount(shell) {
  return new Atoms(shell);
}

class Atoms {
  constructor(shell) {
    this.shell = shell;
    this.root = shell.root.querySelector(".atoms");
    this.list = this.root.querySelector(".rows");
    this.text = this.root.querySelector(".text");
    this.tip = this.root.querySelector(".tip");
    this.known = new Map(); // name -> { row, element }, where ``row`` is also a part of the text
    this.message = {};
    this.pick = null; // { stamp, until }: a click that Python did not name yet
    this.atom = null;
    const on = (name, heard) => this.list.addEventListener(name, (event) => heard.call(this, event));
    on("click", this.onClick);
    on("keydown", this.onKey);
    on("pointerover", (event) => this.point(event.target));
    on("pointerleave", () => this.point(null));
    on("focusin", (event) => this.onFocus(event.target));
    on("focusout", () => this.say(null));
    this.text.addEventListener("click", (event) => this.onWord(event.target));
    this.text.addEventListener("pointerover", (event) => this.point(event.target));
    this.text.addEventListener("pointerleave", () => this.point(null));
    this.onAtom = (event) => this.light(event.detail); // under the pointer, in any view
    this.onPick = (event) => this.take(event); // of a click in 3D
    globalThis.addEventListener("driftscope-atom", this.onAtom);
    globalThis.addEventListener("driftscope-pick", this.onPick);
  }

  destroy() {
    globalThis.removeEventListener("driftscope-atom", this.onAtom);
    globalThis.removeEventListener("driftscope-pick", this.onPick);
    if (this.atom !== null) this.tell(null);
  }

  update(message) {
    for (const [name, row] of Object.entries(message.rows)) {
      if (!this.known.has(name)) this.known.set(name, { row });
    }
    const names = [...message.order, ...message.text];
    if (names.some((name) => !this.known.has(name))) return false;
    const scrolled = [this.list, this.text];
    const atEnd = scrolled.filter((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 24);
    // It is written: the worst come first.
    if (this.message.follow && !message.follow) for (const box of scrolled) box.scrollTop = 0;
    this.message = message;
    this.root.querySelector("header").hidden = !message.caption;
    this.root.querySelector(".label").textContent = message.label;
    this.root.querySelector(".caption").textContent = message.caption;
    this.list.setAttribute("aria-label", message.label);
    this.list.style.maxHeight = message.max_height ? `${message.max_height}px` : "";
    this.root.querySelector(".answer").hidden = !message.text.length;
    this.arrange(this.list, message.order, rowElement);
    this.arrange(this.text, message.text, partElement);
    const kept = new Set(names);
    for (const name of [...this.known.keys()]) {
      if (!kept.has(name)) this.known.delete(name);
    }
    this.root.querySelector(".heads").hidden = !this.list.querySelector("[data-atom]");
    if (!this.list.querySelector("[tabindex='0']")) this.list.firstChild?.setAttribute("tabindex", "0");
    if (this.pick && (message.heard === this.pick.stamp || performance.now() > this.pick.until)) this.pick = null;
    if (!this.pick) this.select(message.atom, message.token);
    if (message.follow) for (const box of atEnd) box.scrollTop = box.scrollHeight;
    return true;
  }

  arrange(box, order, draw) {
    order.forEach((name, place) => {
      const entry = this.known.get(name);
      entry.element ??= draw(entry.row);
      const before = box.children[place] ?? null;
      if (before !== entry.element) box.insertBefore(entry.element, before);
    });
    while (box.children.length > order.length) box.lastChild.remove();
  }

  // What is selected and pointed at ------------------------------------------------------------------------------------

  select(atom, token) {
    const before = `${this.atom} ${this.token}`;
    if (this.atom !== (atom ?? null)) this.tell(atom ?? null);
    [this.atom, this.token] = [atom ?? null, token ?? null];
    for (const row of this.list.children) row.setAttribute("aria-selected", String(this.isOn(row)));
    for (const step of this.list.querySelectorAll(".step")) {
      const isOn = Number(step.dataset.column) === this.token && !step.closest(".other");
      step.classList.toggle("on", isOn);
    }
    const chosen = this.list.querySelector(".step.on") ?? this.list.querySelector("[aria-selected='true']");
    const chosenRow = this.list.querySelector("[aria-selected='true']:not(.other)");
    const inRow = new Set([...(chosenRow?.querySelectorAll(".step") ?? [])].map((step) => step.dataset.column));
    for (const word of this.text.querySelectorAll("[data-column]")) {
      word.classList.toggle("on", inRow.has(word.dataset.column));
    }
    const isNew = before !== `${this.atom} ${this.token}`;
    if (chosen && isNew && !this.root.getRootNode().activeElement) this.reveal(chosen);
  }

  // Rows that scroll by themselves leave the page where it is.
  reveal(chosen) {
    if (!this.message.max_height) return chosen.scrollIntoView({ block: "nearest" });
    const [list, row] = [this.list, chosen].map((element) => element.getBoundingClientRect());
    if (row.top < list.top || row.bottom > list.bottom) this.list.scrollTop += row.top - list.top;
  }

  // To the frames of 3D views, which may come later.
  tell(atom) {
    globalThis.driftscopeSelected = atom;
    globalThis.dispatchEvent(new CustomEvent("driftscope-selected"));
  }

  isOn(row) {
    if (row.dataset.atom !== undefined) return Number(row.dataset.atom) === this.atom;
    return row.querySelector(`.step[data-column="${this.token}"]`) !== null;
  }

  light(atom) {
    for (const row of this.list.children) {
      row.classList.toggle("lit", atom !== null && row.dataset.atom === String(atom));
    }
  }

  // The row's token of this column: of the row's own run.
  stepOf(column) {
    return this.list.querySelector(`.row:not(.other) .step[data-column="${column}"]`);
  }

  point(target) {
    const column = target?.dataset?.column;
    const row = (this.text.contains(target) ? this.stepOf(column) : target)?.closest?.(".row");
    const atom = row?.dataset.atom === undefined ? null : Number(row.dataset.atom);
    globalThis.dispatchEvent(new CustomEvent("driftscope-atom", { detail: atom })); // heard here too
    this.say(target?.closest?.("[data-column]") ?? null);
  }

  onFocus(target) {
    for (const item of this.list.querySelectorAll("[tabindex='0']")) item.setAttribute("tabindex", "-1");
    target.setAttribute("tabindex", "0");
    this.say(target.closest(".step"));
  }

  say(step) {
    this.tip.hidden = step === null;
    if (step === null) return;
    const written = this.text.contains(step) ? this.stepOf(step.dataset.column) : step; // a row may be another run's
    this.tip.replaceChildren(...tipLines((written ?? step).token));
    const box = step.getBoundingClientRect();
    this.tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - this.tip.offsetWidth - 16))}px`;
    const isBelow = box.bottom + this.tip.offsetHeight + 8 < innerHeight;
    this.tip.style.top = `${isBelow ? box.bottom + 6 : box.top - this.tip.offsetHeight - 6}px`;
  }

  // Picking and moving -------------------------------------------------------------------------------------------------

  onClick({ target }) {
    if (!target.closest(".row") || !this.message.pickable) return;
    this.choose(target.closest(".row"), target.closest(".step"));
  }

  // A click in the whole answer opens the token's row, if it is of one.
  onWord(word) {
    const step = this.stepOf(word.dataset.column);
    if (!step || !this.message.pickable) return;
    this.choose(step.closest(".row"), step);
    step.closest(".row").scrollIntoView({ block: "nearest" });
  }

  // The first view that has the atom.
  take(event) {
    const row = this.list.querySelector(`.row[data-atom="${event.detail}"]:not(.other)`);
    const isClear = event.detail === null || event.detail === this.atom;
    if (!this.message.pickable || (!row && !isClear)) return;
    event.stopImmediatePropagation();
    this.choose(isClear ? null : row, null);
  }

  choose(row, step) {
    const atom = row?.dataset.atom === undefined ? null : Number(row.dataset.atom);
    let column = step && !row.classList.contains("other") ? Number(step.dataset.column) : null;
    if (atom === null && column === null && row) column = Number(row.querySelector(".step").dataset.column);
    const isOff = row && column === this.token && atom === this.atom;
    this.select(isOff ? null : atom, isOff ? null : column);
    const place = column ?? (atom === null ? null : this.message.columns + atom);
    this.pick = { stamp: sendPick(this.shell, isOff ? null : place), until: performance.now() + UNHEARD_MS };
  }

  onKey(event) {
    const focused = this.root.getRootNode().activeElement;
    const row = focused?.closest?.(".row");
    if (!row) return;
    const steps = [...row.querySelectorAll(".step")];
    const place = steps.indexOf(focused);
    const next = {
      ArrowDown: () => row.nextElementSibling,
      ArrowUp: () => row.previousElementSibling,
      ArrowRight: () => steps[place + 1],
      ArrowLeft: () => (place > 0 ? steps[place - 1] : row),
      Home: () => this.list.firstElementChild,
      End: () => this.list.lastElementChild,
    }[event.key];
    if (next) next()?.focus();
    else if ((event.key === "Enter" || event.key === " ") && this.message.pickable) this.choose(row, place < 0 ? null : focused);
    else if (event.key === "Escape" && this.message.pickable) this.choose(null, null);
    else return;
    event.preventDefault();
  }
}

// Drawing ----------------------------------------------------------------------------------------------------------------

function rowElement(row) {
  const ladder = make("div", "ladder", "", row.tokens.map(stepElement));
  const said = make("p", "say", "", withCode(row.words));
  const harm = make("div", "harm", "", [make("small", "", row.need), make("span", "tag", row.tag), make("span", "off", row.off)]);
  harm.firstChild.title = "Tokens that its numbers need, of those that the template gives";
  const isSound = row.atom !== null && !row.kind && !row.is_other;
  const classes = `row ${row.kind} ${row.is_other ? "other" : ""} ${row.is_quiet ? "quiet" : ""} ${isSound ? "sound" : ""}`;
  const curves = row.curves.length ? [make("div", "curves", "", row.curves.map(curveElement))] : [];
  const element = make("li", classes, "", [make("div", "name", row.name), ladder, harm, said, ...curves]);
  element.setAttribute("role", "option");
  element.setAttribute("tabindex", "-1");
  element.setAttribute("aria-label", [row.name, row.tag || "exact", row.off && `${row.off} Å`, row.need].filter(Boolean).join(", "));
  if (row.atom !== null) element.dataset.atom = row.atom;
  return element;
}

// What the model believes of one number; a line where it was written.
function curveElement(curve) {
  const draw = (kind, values) => {
    const part = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(values)) part.setAttribute(name, value);
    return part;
  };
  const picture = draw("svg", { viewBox: "0 0 96 17", width: 96, height: 17, role: "img", "aria-label": curve.about });
  picture.append(
    draw("path", { d: curve.area, class: "area" }),
    draw("path", { d: curve.struck, class: "struck-area" }),
    draw("path", { d: `M${curve.at} 0V17`, class: "at" }),
    draw("path", { d: "M0 16.5H96", class: "ground" }),
  );
  const figure = make("div", "curve", "", [picture, make("small", "", curve.words), make("small", "width", curve.width)]);
  figure.title = curve.about;
  return figure;
}

// What was written is between backticks.
function withCode(words) {
  return words.split("`").map((part, place) => (place % 2 ? make("code", "", part) : part));
}

function classesOf(marks) {
  return [...marks].map((mark) => CLASSES[mark]).join(" ");
}

// Of the whole answer: tokens next to each other.
function partElement(words) {
  const spans = words.map(([column, piece, marks]) => {
    const word = make("span", classesOf(marks), piece);
    word.dataset.column = column;
    word.token = { piece, marks, template: null, id: null, p_raw: null, likely: [] };
    return word;
  });
  return make("span", "", "", spans);
}

function stepElement(token) {
  const classes = classesOf(token.marks);
  const above = token.template === null ? [] : [make("i", "", token.template)];
  const step = make("span", `step ${classes}`, "", [...above, make("b", "", token.piece)]);
  step.dataset.column = token.column;
  step.setAttribute("tabindex", "-1");
  step.token = token;
  return step;
}

function tipLines(token) {
  const line = (...parts) => make("div", "", "", parts);
  const over = token.template === null ? "" : ` over ${token.template}`;
  const lines = [line(make("b", "", token.piece || "nothing written"), `${over}${token.id === null ? "" : ` · id ${token.id}`}`)];
  for (const [mark, words] of Object.entries(WORDS)) if (token.marks.includes(mark) && !(mark === "f" && token.note)) lines.push(line(words));
  if (token.note) lines.push(line(token.note));
  for (const words of [token.lost, token.struck]) if (words) lines.push(line(...withCode(words)));
  if (token.p_raw !== null) lines.push(line(`before the LP ${share(token.p_raw)}, after ${share(token.p_lp)}`));
  for (const [piece, p, isAllowed] of token.likely) lines.push(line(make(isAllowed ? "span" : "s", "", piece), ` ${share(p)}`));
  return lines;
}

function share(p) {
  if (p === null) return "?";
  const percent = 100 * p;
  if (p < 1 && percent > 99.95) return ">99.9 %";
  return p > 0 && percent < 0.0001 ? "<0.0001 %" : `${percent.toFixed(p > 0 && percent < 0.1 ? 4 : 1)} %`;
}
