// Draws a chart as SVG. Each mark has a box in the chart's own numbers, in which a category is its place: bars and cells
// fill their boxes, those of points end where their intervals end. So one kind of axis serves all.

const [WIDTH, HEIGHT, TOP, BOTTOM, LEFT, RIGHT, BAND] = [660, 300, 24, 46, 62, 24, 34]; // px; a band is of one category
const CHAR = 6.9; // px, about the width of a letter
const MOST_LABEL = 40;
const COLOURS = 8; // of more series none has a name next to its points: they would cover each other
const SHAPES = ["M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z", "M-1 -1H1V1H-1z", "M0 -1.3L1.3 0L0 1.3L-1.3 0z", "M0 -1.2L1.2 1H-1.2z"];
const DRAWN_BY = { points, lines, bars, heat };

function chart(view) {
  const all = view.panels.flatMap((panel) => panel.marks);
  const letters = view.panels.flatMap(({ marks }) => categories(marks, "y").map((name) => name.length));
  const left = letters.length ? Math.min(24 + CHAR * Math.min(Math.max(...letters), MOST_LABEL), WIDTH / 2) : LEFT;
  const across = ({ marks }) => categories(view.is_shared ? all : marks, "x");
  const boxed = view.panels.map((panel) => boxesOf(view, panel.marks, across(panel)));
  const panels = view.panels.map((panel, place) => {
    const drawing = panelOf(view, panel.title, boxed[place], view.is_shared ? boxed.flat() : boxed[place], across(panel), left);
    return made("div", {}, made("figcaption", {}, panel.title), drawing);
  });
  const legend = view.legend.map(([look, glyph, name]) => made("span", {}, made("b", { class: look }, glyph), name));
  const parts = [made("div", { class: "legend" }, ...legend), made("div", { class: "panels" }, ...panels)];
  return made("figure", { class: view.x.ends ? "time" : "" }, ...parts);
}

function panelOf(view, title, boxes, scale, across, left) {
  const down = categories(boxes.map((box) => box.mark), "y");
  const height = down.length ? TOP + BOTTOM + BAND * down.length : HEIGHT;
  const room = view.kind === "bars" && boxes.some(({ mark }) => mark.text) ? 130 : RIGHT;
  const level = view.level === null ? [] : [view.level];
  const ends = (side) => [...scale.flatMap((box) => box[side]), ...(view.interval === "xy"[side] ? level : [])];
  const up = down.length ? [TOP, height - BOTTOM] : [height - BOTTOM, TOP];
  const x = axisOf(view.x, ends(0), across, [left, WIDTH - room], view.kind);
  const y = axisOf(view.y, ends(1), down, up, view.kind);
  const frame = { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${title} ${y.head} by ${x.head}`.trim() };
  return drawn("svg", frame, ...axisMarks(view, x, y), ...DRAWN_BY[view.kind](boxes, x, y, view));
}

// Boxes and axes --------------------------------------------------------------------------------------------------------

function categories(marks, side) {
  const values = [...new Set(marks.map((mark) => mark[side]))];
  return values.some((value) => typeof value === "string") ? values : [];
}

// Of each mark its place, and from where to where it goes on x (0) and y (1). Bars without a begin of their own begin
// where those before them end that have their place and sign.
function boxesOf({ kind, interval }, marks, across) {
  const down = categories(marks, "y");
  const along = down.length ? 0 : 1;
  const stacked = {};
  return marks.map((mark) => {
    const at = [across.length ? across.indexOf(mark.x) : mark.x, down.length ? down.indexOf(mark.y) : mark.y];
    const box = { mark, at, 0: [at[0], at[0]], 1: [at[1], at[1]] };
    if (kind === "heat") for (const side of [0, 1]) box[side] = [at[side] - 0.48, at[side] + 0.48];
    if (kind === "points" && mark.low !== undefined) {
      const side = "xy".indexOf(interval);
      box[side] = [mark.low, mark.high ?? at[side]];
    }
    if (kind === "bars") {
      const half = (mark.size ?? 0.74) / 2;
      const place = at[1 - along];
      const key = `${place} ${at[along] < 0}`;
      const begin = mark.low ?? stacked[key] ?? 0;
      stacked[key] = mark.low === undefined ? begin + at[along] : at[along];
      box[along] = [begin, stacked[key]];
      box[1 - along] = [place - half, place + half];
    }
    return box;
  });
}

function axisOf({ head, is_log, unit, ends }, values, names, [start, end], kind) {
  const known = is_log ? values.filter((value) => value > 0) : values;
  let [low, high] = ends ?? [Math.min(...known), Math.max(...known)];
  if (names.length) [low, high] = [-0.5, names.length - 0.5];
  else if (is_log) {
    const room = Math.max((high / low) ** 0.12, 1.1);
    [low, high] = [low / room, high * room];
  } else if (!ends) {
    const room = 0.06 * (high - low) || 0.5;
    [low, high] = [kind === "bars" && low === 0 ? 0 : low - room, high + room];
  }
  const scale = is_log && !names.length ? Math.log : (value) => value;
  const share = (value) => (scale(value) - scale(low)) / (scale(high) - scale(low));
  const px = (value) => start + Math.min(Math.max(share(value), 0), 1) * (end - start);
  const ticks = names.length ? [...names.entries()] : ticksOf(low, high, is_log).map((value) => [value, tickWords(value, unit)]);
  const most = names.length ? Math.max((end - start) / names.length / CHAR, 6) : MOST_LABEL; // letters of a label across
  return { head, start, end, low, high, px, ticks, most, isNamed: names.length > 0 };
}

function ticksOf(low, high, isLog) {
  if (isLog) {
    const digits = high / low > 1000 ? [1] : [1, 2, 5];
    const powers = Array.from({ length: 20 }, (_, place) => 10 ** (place - 9));
    return powers.flatMap((power) => digits.map((digit) => digit * power)).filter((tick) => low <= tick && tick <= high);
  }
  const power = 10 ** Math.floor(Math.log10((high - low) / 5));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => 5.01 * size >= high - low);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => (first + place) * step);
}

function tickWords(value, unit) {
  if (unit === "%") return `${+(100 * value).toPrecision(6)} %`;
  const form = Math.abs(value) >= 1e4 ? { notation: "compact" } : { maximumSignificantDigits: 6 };
  return new Intl.NumberFormat("en", form).format(value);
}

function axisMarks({ interval, level, has_diagonal }, x, y) {
  const [top, bottom] = [y.start, y.end].sort((a, b) => a - b);
  const upright = (look, value) => line(look, [[x.px(value), top], [x.px(value), bottom]]);
  const lying = (look, value) => line(look, [[x.start, y.px(value)], [x.end, y.px(value)]]);
  const marks = x.ticks.map(([value, words]) => label(x.px(value), bottom + 17, words, "middle", x.most));
  marks.push(...y.ticks.map(([value, words]) => label(x.start - 8, y.px(value) + 4, words, "end")));
  if (!x.isNamed) {
    marks.push(...x.ticks.map(([value]) => upright("grid", value)));
    marks.push(label((x.start + x.end) / 2, bottom + 38, x.head, "middle", 80, "title"));
  }
  if (!y.isNamed) {
    marks.push(...y.ticks.map(([value]) => lying("grid", value)));
    marks.push(label(4, 13, y.head, "start", 80, "title"));
  }
  if (level !== null) marks.push((interval === "x" ? upright : lying)("level", level));
  const ends = [Math.max(x.low, y.low), Math.min(x.high, y.high)];
  if (has_diagonal) marks.push(line("level", ends.map((end) => [x.px(end), y.px(end)])));
  return marks;
}

// Marks -----------------------------------------------------------------------------------------------------------------

function label(x, y, text, anchor, most = MOST_LABEL, look = "") {
  const words = text.length > most ? `${text.slice(0, most - 1)}…` : text;
  return drawn("text", { x, y, "text-anchor": anchor, class: look }, words);
}

function named(name, attributes, about) {
  return drawn(name, attributes, ...(about ? [drawn("title", {}, about)] : []));
}

function line(look, spots, about) {
  return named("path", { class: look, d: `M${spots.map((spot) => spot.map((px) => px.toFixed(1)).join(" ")).join("L")}` }, about);
}

function rectangle(box, x, y, attributes, about) {
  const [left, right] = box[0].map(x.px).sort((a, b) => a - b);
  const [top, foot] = box[1].map(y.px).sort((a, b) => a - b);
  const size = { x: left, y: top, width: Math.max(right - left, 0.5), height: Math.max(foot - top, 0.5) };
  return named("rect", { ...size, ...attributes }, about);
}

function points(boxes, x, y, { interval, legend }) {
  return boxes.flatMap((box) => {
    const { look, shape, size, text, about } = box.mark;
    const [at, height] = [x.px(box.at[0]), y.px(box.at[1])];
    const radius = size ? size / 2 : 5;
    const place = `translate(${at.toFixed(1)} ${height.toFixed(1)}) scale(${radius})`;
    const whisker = line("whisker", [0, 1].map((end) => [x.px(box[0][end]), y.px(box[1][end])]));
    const mark = named("path", { class: `mark ${look}`, d: SHAPES[shape % SHAPES.length], transform: place }, about);
    if (!text || (!y.isNamed && legend.length > COLOURS)) return [whisker, mark];
    const isBeside = interval === "y"; // a whisker that stands
    return [whisker, mark, label(at + (isBeside ? radius + 4 : 0), height - 9, text, isBeside ? "start" : "middle", 60)];
  });
}

function lines(boxes, x, y) {
  const series = Map.groupBy(boxes, ({ mark }) => `line ${mark.look}${mark.dash ? " dashed" : ""}`);
  return [...series].map(([look, of]) => line(look, of.map(({ at }) => [x.px(at[0]), y.px(at[1])]), of.at(-1).mark.about));
}

// Colour is never alone: every second series is hatched.
function bars(boxes, x, y) {
  return boxes.flatMap((box) => {
    const { look, shape, text, about } = box.mark;
    const parts = [rectangle(box, x, y, { class: `bar ${look}` }, about)];
    if (shape % 2) parts.push(rectangle(box, x, y, { class: "hatch" }));
    if (text && y.isNamed) parts.push(label(x.px(Math.max(...box[0])) + 5, y.px(box.at[1]) + 4, text, "start", 60));
    return parts;
  });
}

// Cells that are the stronger, the larger `size`.
function heat(boxes, x, y) {
  const most = Math.max(...boxes.map(({ mark }) => mark.size ?? 0)) || 1;
  return boxes.flatMap((box) => {
    const { size, text, about } = box.mark;
    const look = { class: "cell accent", "fill-opacity": (0.55 * (size ?? 0)) / most };
    return [rectangle(box, x, y, look, about), label(x.px(box.at[0]), y.px(box.at[1]) + 4, text ?? "", "middle")];
  });
}
