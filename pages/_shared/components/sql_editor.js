// The SQL editor in the browser. What is written stays the reader's: Python's word replaces it only where Python opened
// another statement. Statements and names are untrusted: they reach the page through textContent and attributes.

const KEYWORDS = new Set(
  ("all and any as asc at between by case cast cross cube describe desc distinct else end except exclude exists false " +
    "filter first following for from full group grouping having if ilike in inner intersect interval into is join last " +
    "lateral left like limit materialized name natural not null nulls offset on or order over partition pivot " +
    "preceding qualify range recursive replace right rollup row rows sample select semi sets similar summarize then " +
    "true unbounded union unnest unpivot using value values when where window with within").split(" "),
);
const PARTS = /(?<note>--[^\n]*|\/\*[^]*?(?:\*\/|$))|(?<text>'(?:''|[^'])*(?:'|$)|\b\d[\d_.]*(?:e[+-]?\d+)?)|(?<name>\$(?:control|tests|runs)\b)|"(?:""|[^"])*(?:"|$)|(?<word>[a-z_]\w*)/gi;
const MOST_COLOURED = 30000; // characters: colouring follows every key
const LEADING_REM = 1.35;
const PADDING_REM = 1.3;
const SHOWN_LINES = [7, 13];
const editors = new WeakMap();

class Editor {
  constructor(root) {
    this.root = root;
    for (const name of ["paper", "gutter", "ink", "run", "limits", "status", "tables"]) {
      this[name] = root.querySelector(`.${name}`);
    }
    this.area = root.querySelector("textarea");
    this.search = root.querySelector("input");
    this.seen = { text: "", opened: null, mark: "", schema: "" };
    this.pending = null; // what was sent to be run and is not confirmed yet
    this.area.addEventListener("input", () => this.onInput());
    this.area.addEventListener("scroll", () => this.follow());
    this.area.addEventListener("blur", () => this.sendDraft());
    this.area.addEventListener("keydown", (event) => this.onKey(event));
    this.run.addEventListener("click", () => this.send());
    this.search.addEventListener("input", () => this.filter());
    this.search.addEventListener("keydown", (event) => this.onSearchKey(event));
    this.tables.addEventListener("click", (event) => this.onName(event));
    this.tables.addEventListener("keydown", (event) => this.onArrow(event));
  }

  update(data) {
    this.data = data;
    const schema = JSON.stringify(data.tables);
    if (schema !== this.seen.schema) this.drawTables(data.tables);
    this.limits.textContent = data.limits;
    this.takeText(data);
    this.mark = data.mark && data.marked === this.area.value ? data.mark : null;
    this.area.setAttribute("aria-invalid", String(Boolean(this.mark)));
    this.seen = { text: data.text, opened: data.opened, schema };
    this.paint();
  }

  takeText(data) {
    const { seen, area, pending } = this;
    if (data.text === pending) this.pending = null;
    const isOpened = data.opened !== seen.opened;
    if (!isOpened && (this.pending !== null || data.text === seen.text || data.text === pending)) return;
    if (area.value !== data.text) {
      area.value = data.text;
      this.draft = data.text;
      this.fit();
    }
    this.pending = null;
  }

  // As high as the text, within bounds; the reader may drag it to another height.
  fit() {
    const lines = this.area.value.split("\n").length + 1;
    const shown = Math.min(Math.max(lines, SHOWN_LINES[0]), SHOWN_LINES[1]);
    this.paper.style.height = `${shown * LEADING_REM + PADDING_REM}rem`;
  }

  // Writing -----------------------------------------------------------------------------------------------------------

  onInput() {
    this.mark = null;
    this.area.setAttribute("aria-invalid", "false");
    this.status.textContent = this.area.value === this.seen.text ? "" : "Not run yet";
    this.paint();
  }

  onKey(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.send();
    }
  }

  send() {
    const text = this.area.value;
    this.pending = this.draft = text;
    this.status.textContent = "";
    this.trigger("run", { text, stamp: crypto.getRandomValues(new Uint32Array(2)).join("-") });
  }

  sendDraft() {
    if (this.area.value === (this.draft ?? this.seen.text)) return;
    this.draft = this.area.value;
    this.state("draft", this.draft);
  }

  insert(name) {
    const { area } = this;
    const before = area.value.slice(0, area.selectionStart);
    const text = /[\w"')]$/.test(before) ? ` ${name}` : name;
    area.focus();
    // So that undo takes it back; deprecated, and the one way there is.
    if (!document.execCommand("insertText", false, text)) {
      area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
      this.onInput();
    }
  }

  // Colours -----------------------------------------------------------------------------------------------------------

  paint() {
    const text = this.area.value;
    this.ink.replaceChildren(...(text.length > MOST_COLOURED ? [text] : this.pieces(text)), "\n");
    const lines = text.split("\n").length;
    this.gutter.textContent = Array.from({ length: lines }, (_, number) => number + 1).join("\n");
    this.follow();
  }

  pieces(text) {
    const pieces = [];
    const put = (start, end, kind) => {
      const [from, to] = this.mark ?? [0, 0];
      const cuts = [start, ...[from, to].filter((at) => at > start && at < end), end];
      for (let i = 0; i + 1 < cuts.length; i++) {
        const isWrong = cuts[i] >= from && cuts[i] < to;
        pieces.push(this.piece(text.slice(cuts[i], cuts[i + 1]), kind, isWrong));
      }
    };
    let done = 0;
    for (const found of text.matchAll(PARTS)) {
      const kind = kindOf(found.groups);
      if (found.index > done) put(done, found.index, "");
      done = found.index + found[0].length;
      put(found.index, done, kind);
    }
    if (done < text.length) put(done, text.length, "");
    return pieces;
  }

  piece(text, kind, isWrong) {
    if (!kind && !isWrong) return text;
    const span = document.createElement("span");
    span.className = isWrong ? `${kind} wrong`.trim() : kind;
    span.textContent = text;
    return span;
  }

  follow() {
    this.ink.scrollTop = this.gutter.scrollTop = this.area.scrollTop;
    this.ink.scrollLeft = this.area.scrollLeft;
  }

  // The schema --------------------------------------------------------------------------------------------------------

  drawTables(tables) {
    this.tables.replaceChildren(...tables.map(tableOf), note("No table or column matches."));
    this.filter();
  }

  filter() {
    const wanted = this.search.value.trim().toLowerCase();
    let any = false;
    for (const details of this.tables.querySelectorAll("details")) {
      const isTable = details.dataset.name.includes(wanted);
      let shown = 0;
      for (const button of details.querySelectorAll("button")) {
        button.hidden = !(isTable || button.dataset.says.includes(wanted));
        shown += button.hidden ? 0 : 1;
      }
      details.hidden = shown === 0;
      details.open = wanted ? shown > 0 : details.dataset.open === "true";
      any ||= shown > 0;
    }
    this.tables.querySelector(".none").hidden = any;
  }

  onSearchKey(event) {
    if (event.key === "Escape") {
      this.search.value = "";
      this.filter();
    } else if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      this.buttons()[0]?.focus();
    }
  }

  onName(event) {
    const button = event.target.closest("button");
    if (button) this.insert(button.dataset.insert);
  }

  onArrow(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") this.area.focus();
    if (!step) return;
    event.preventDefault();
    const all = this.buttons();
    const place = all.indexOf(this.root.getRootNode().activeElement);
    (all[place + step] ?? (step < 0 ? this.search : null))?.focus();
  }

  buttons() {
    const all = this.tables.querySelectorAll("summary, button");
    return [...all].filter((one) => one.checkVisibility());
  }
}

function kindOf(groups) {
  if (groups.word) return KEYWORDS.has(groups.word.toLowerCase()) ? "word" : "";
  return groups.note ? "note" : groups.text ? "text" : groups.name ? "name" : "";
}

function tableOf(table) {
  const details = document.createElement("details");
  details.dataset.name = table.name.toLowerCase();
  details.dataset.open = String(Boolean(table.open));
  const summary = document.createElement("summary");
  const count = document.createElement("span");
  summary.textContent = table.name;
  count.textContent = table.about;
  summary.append(count);
  details.append(summary, ...table.columns.map(columnOf));
  return details;
}

function columnOf([name, type, what]) {
  const button = document.createElement("button");
  const [bold, kind, small] = ["b", "i", "small"].map((tag) => document.createElement(tag));
  [bold.textContent, kind.textContent, small.textContent] = [name, type, what];
  button.type = "button";
  button.className = "column";
  button.dataset.insert = name;
  button.dataset.says = `${name} ${what}`.toLowerCase();
  button.setAttribute("aria-label", `Insert ${name}: ${what}`);
  button.append(bold, kind, small);
  return button;
}

function note(text) {
  const line = document.createElement("p");
  line.className = "none";
  line.textContent = text;
  return line;
}

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".sql");
  let editor = editors.get(root);
  if (!editor) editors.set(root, (editor = new Editor(root)));
  editor.state = setStateValue;
  editor.trigger = setTriggerValue;
  editor.update(data);
}
