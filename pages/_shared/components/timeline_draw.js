// Timelines on a canvas; part of the module of timeline_canvas.js. All that it draws comes with `draw`; it remembers
// only where things are.

const COLUMN_PX = 2;
const BAR_PX = 15;
const LEAST_LABEL_PX = 34;
const NEAR_PX = 4; // how far beside a span it is still meant
const MARK = "rgba(15, 23, 26, 0.42)"; // of patterns, dark on all fills in both themes
const PATTERNS = ["", "/", ".", "\\", "-", "x", "|", "+"];

class Painter {
  constructor(canvas, section) {
    this.canvas = canvas;
    this.section = section;
    this.context = canvas.getContext("2d");
    this.rows = [];
    this.restyle();
  }

  restyle() {
    const style = getComputedStyle(this.section);
    const names = ["ink", "muted", "ground", "line", "accent"];
    this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.font = style.fontFamily;
  }

  fit({ rows, height }) {
    this.rows = rows;
    const ratio = globalThis.devicePixelRatio || 1;
    this.width = this.canvas.parentElement.clientWidth;
    this.height = height;
    this.left = this.width < 640 ? 96 : 124;
    this.plot = Math.max(1, this.width - this.left);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  xOf(time) {
    return this.left + ((time - this.view[0]) / (this.view[1] - this.view[0])) * this.plot;
  }

  timeAt(x) {
    return this.view[0] + ((x - this.left) / this.plot) * (this.view[1] - this.view[0]);
  }

  // { view, tracks, families, shifts, alone, selected, range }
  draw(scene) {
    Object.assign(this, scene);
    const { context } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.textBaseline = "middle";
    this.drawAxis();
    this.most = this.columns();
    for (const row of this.rows) {
      if (row.kind === "head") this.write(this.tracks[row.track].name, 0, row.y + row.height / 2, this.width, this.colours.ink, 13, 600);
      else if (row.kind === "share") this.drawShares(row);
      else this.drawLane(row);
    }
    if (this.range) this.drawRange();
  }

  write(text, x, y, room, colour = this.colours.muted, size = 12, weight = 400) {
    const { context } = this;
    context.font = `${weight} ${size}px ${this.font}`;
    context.fillStyle = colour;
    context.fillText(this.fitted(text, room), x, y);
  }

  fitted(text, room) {
    const { context } = this;
    const near = text.slice(0, Math.ceil(room / 3)); // no letter is narrower than three pixels
    if (near === text && context.measureText(text).width <= room) return text;
    let [least, most] = [0, near.length];
    while (least < most) {
      const middle = Math.ceil((least + most) / 2);
      if (context.measureText(`${near.slice(0, middle)}…`).width <= room) least = middle;
      else most = middle - 1;
    }
    return least ? `${near.slice(0, least)}…` : "";
  }

  drawAxis() {
    const { context, colours } = this;
    const [from, to] = this.view;
    const step = niceStep((to - from) / Math.max(2, this.plot / 110));
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    this.write("ms", 0, AXIS_PX / 2, this.left);
    for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
      const x = Math.round(this.xOf(tick)) + 0.5;
      context.fillStyle = colours.line;
      context.fillRect(x - 0.5, AXIS_PX - 5, 1, this.height - AXIS_PX + 5);
      const label = tick.toLocaleString("en", digits);
      if (x + 3 + context.measureText(label).width <= this.width) this.write(label, x + 3, AXIS_PX / 2, 90);
    }
  }

  // Families -----------------------------------------------------------------------------------------------------------

  // Shares of each column, which pointing at one asks for again; returns the most that a column has in all, at least 1.
  columns() {
    const count = Math.max(1, Math.floor(this.plot / COLUMN_PX));
    const width = (this.view[1] - this.view[0]) / count;
    let most = 1;
    for (const row of this.rows) {
      if (row.kind !== "share") continue;
      const start = this.view[0] + this.shifts[row.track];
      row.columns = Array.from({ length: count }, (_, at) => {
        const edge = start + at * width;
        return this.families.map((_, family) => shareOf(this.tracks[row.track], family, edge, edge + width));
      });
      for (const column of row.columns) most = Math.max(most, column.reduce((sum, share) => sum + share, 0));
    }
    return most > 1.05 ? Math.ceil(most * 2) / 2 : 1;
  }

  // The one that is shown alone is at the bottom, where its height can be read.
  order() {
    const places = this.families.map((_, place) => place);
    return this.alone === null ? places : [this.alone, ...places.filter((place) => place !== this.alone)];
  }

  drawShares(row) {
    const { context, colours } = this;
    const bottom = row.y + row.height;
    const yOf = (share) => bottom - (Math.min(share, this.most) / this.most) * row.height;
    this.write("busy, %", 0, row.y + row.height / 2, this.left - 40);
    for (const share of this.most > 1 ? [0, 1, this.most] : [0, 0.5, 1]) {
      context.fillStyle = colours.line;
      context.fillRect(this.left, Math.round(yOf(share)), this.plot, 1);
      context.textAlign = "right";
      const y = Math.max(row.y + 5, Math.min(yOf(share), bottom - 5));
      this.write(`${100 * share}`, this.left - 6, y, 40, colours.muted, 11);
      context.textAlign = "left";
    }
    let below = new Float64Array(row.columns.length);
    for (const family of this.order()) {
      const above = below.map((height, at) => height + row.columns[at][family]);
      const path = this.between(below, above, yOf);
      context.globalAlpha = this.alone === null || this.alone === family ? 1 : 0.22;
      context.fillStyle = this.families[family].colour;
      context.fill(path);
      context.fillStyle = this.pattern(family);
      context.fill(path);
      below = above;
    }
    context.globalAlpha = 1;
    const { selected } = this;
    if (selected?.kind === "share" && selected.track === row.track) this.drawChosenColumn(row, selected);
  }

  between(below, above, yOf) {
    const path = new Path2D();
    const width = this.plot / above.length;
    above.forEach((height, at) => {
      if (height <= below[at]) return;
      const top = yOf(height);
      path.rect(this.left + at * width, top, width, yOf(below[at]) - top);
    });
    return path;
  }

  pattern(family) {
    this.patterns ??= PATTERNS.map((name) => this.context.createPattern(tile(name), "repeat"));
    return this.patterns[family % PATTERNS.length];
  }

  drawChosenColumn(row, { from, to }) {
    const shift = this.shifts[row.track];
    const [left, right] = [this.xOf(from - shift), this.xOf(to - shift)];
    if (right < this.left || left > this.width) return;
    this.outline(left - 1, row.y - 1, Math.max(4, right - left + 2), row.height + 2);
  }

  // Lanes --------------------------------------------------------------------------------------------------------------

  drawLane(row) {
    const { context } = this;
    const shift = this.shifts[row.track];
    const top = row.y + (row.height - BAR_PX) / 2;
    this.write(row.name, 0, row.y + row.height / 2, this.left - 8);
    this.write(row.lane.note ?? "", this.left + 4, row.y + row.height / 2, this.plot - 8);
    context.save();
    context.beginPath();
    context.rect(this.left, row.y - 2, this.plot, row.height + 4);
    context.clip();
    let filled = -1; // as far as a bar reaches: those of less than a pixel that lie below it are not drawn
    for (const span of row.spans) {
      const [left, right] = [this.xOf(span.start - shift), this.xOf(span.start + span.dur - shift)];
      if (right < this.left || left > this.width || right < filled) continue;
      this.drawSpan(row, span, left, top, right - left);
      filled = Math.ceil(right);
    }
    const { selected } = this;
    if (selected?.kind === "span" && selected.track === row.track && row.spans.includes(this.chosenIn(row))) {
      const [left, right] = [selected.span.start, selected.span.start + selected.span.dur].map((time) => this.xOf(time - shift));
      this.outline(left - 1, top - 1, Math.max(3, right - left + 1), BAR_PX + 2);
    }
    context.restore();
  }

  chosenIn(row) {
    const { lane, span } = this.selected;
    return lane === row.lane.name ? row.spans.find((other) => isSame(other, span)) : undefined;
  }

  drawSpan(row, span, left, top, length) {
    const { context } = this;
    const width = Math.max(1, length - (length > 4 ? 1 : 0)); // neighbours stay two
    const fill = this.families[span.family]?.colour ?? row.lane.colour;
    const isDimmed = this.alone !== null && row.lane.kind === "event" && span.family !== this.alone;
    const isFaint = row.lane.kind === "pause" && length < 1; // many short pauses are not a long one
    context.globalAlpha = isDimmed ? 0.25 : isFaint ? Math.max(0.15, length) : 1;
    context.fillStyle = fill;
    context.fillRect(left, top, width, BAR_PX);
    const start = Math.max(left, this.left);
    const room = Math.min(left + width, this.width) - start - 6;
    if (room >= LEAST_LABEL_PX) this.write(span.name, start + 3, top + BAR_PX / 2 + 0.5, room, inkOn(fill), 11);
    context.globalAlpha = 1;
  }

  outline(x, y, width, height) {
    const { context } = this;
    for (const [line, colour] of [[4, this.colours.ground], [2, this.colours.ink]]) {
      context.lineWidth = line;
      context.strokeStyle = colour;
      context.strokeRect(x, y, width, height);
    }
  }

  drawRange() {
    const { context } = this;
    const [left, right] = this.range.map((time) => this.xOf(time)).sort((one, other) => one - other);
    context.globalAlpha = 0.18;
    context.fillStyle = this.colours.accent;
    context.fillRect(left, 0, right - left, this.height);
    context.globalAlpha = 1;
    context.fillRect(left, 0, 1, this.height);
    context.fillRect(right, 0, 1, this.height);
  }

  // What lies there ----------------------------------------------------------------------------------------------------

  itemAt(x, y) {
    const row = this.rows.find((other) => y >= other.y && y < other.y + other.height);
    if (!row || x < this.left) return null;
    return row.kind === "share" ? this.columnAt(row, x, y) : row.kind === "lane" ? this.spanAt(row, x) : null;
  }

  columnAt(row, x, y) {
    const at = Math.min(row.columns.length - 1, Math.floor(((x - this.left) / this.plot) * row.columns.length));
    const height = ((row.y + row.height - y) / row.height) * this.most;
    let sum = 0;
    const family = this.order().find((place) => height <= (sum += row.columns[at][place]));
    return family === undefined ? null : this.columnItem(row, at, family);
  }

  columnItem(row, at, family) {
    const width = (this.view[1] - this.view[0]) / row.columns.length;
    const from = this.view[0] + this.shifts[row.track] + at * width;
    return { kind: "share", track: row.track, family, from, to: from + width };
  }

  spanAt(row, x) {
    const shift = this.shifts[row.track];
    let nearest = null;
    let least = NEAR_PX;
    for (const span of row.spans) {
      const [left, right] = [this.xOf(span.start - shift), this.xOf(span.start + span.dur - shift)];
      const away = Math.max(left - x, x - right, 0);
      if (away < least || (away === 0 && nearest && span.dur < nearest.dur)) [nearest, least] = [span, away];
    }
    return nearest && { kind: "span", track: row.track, lane: row.lane.name, of: row.lane.kind, span: nearest };
  }
}

function isSame(span, other) {
  return span.start === other.start && span.dur === other.dur && span.name === other.name;
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((times) => times * power >= least * (1 - 1e-9));
}

// Dark or light letters, whichever stand out more.
function inkOn(colour) {
  const parts = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
  const [red, green, blue] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#0f171a" : "#ffffff";
}

const STROKES = {
  "/": [[0, 8, 8, 0], [-2, 2, 2, -2], [6, 10, 10, 6]],
  "\\": [[0, 0, 8, 8], [-2, 6, 2, 10], [6, -2, 10, 2]],
  "-": [[0, 4, 8, 4]],
  "|": [[4, 0, 4, 8]],
};
STROKES.x = [...STROKES["/"], ...STROKES["\\"]];
STROKES["+"] = [...STROKES["-"], ...STROKES["|"]];

function tile(name) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const context = canvas.getContext("2d");
  context.strokeStyle = context.fillStyle = MARK;
  context.lineWidth = 1.5;
  for (const [x, y, toX, toY] of STROKES[name] ?? []) {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
  }
  if (name === ".") for (const at of [2, 6]) context.fillRect(at - 1, at - 1, 2, 2);
  return canvas;
}
