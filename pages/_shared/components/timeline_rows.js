// What a timeline holds: shares by bin, lanes of spans, and the rows that these are drawn in; part of the module of
// timeline_canvas.js. Times of a track count from its own start, in milliseconds.

const KINDS = { phase: "Phase", pause: "Pause", event: "Event" };
const MOST_DEPTH = 10; // of spans inside of spans
const AXIS_PX = 24;
const HEAD_PX = 26;
const SHARE_PX = 116;
const LANE_PX = 18;
const LANE_GAP_PX = 5;
const TRACK_GAP_PX = 12;

function takeTrack(packed, families) {
  const values = decoded(packed.shares);
  const sums = families.map((_, place) => summed(values, place * packed.bins, packed.bins, packed.scale));
  return { ...packed, sums, lanes: packed.lanes.map(takeLane), seen: new Set() };
}

function decoded(text) {
  return new Uint16Array(Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer);
}

// The sum of all bins before each edge: any window's share is a difference of two.
function summed(values, start, bins, scale) {
  const sums = new Float64Array(bins + 1);
  for (let bin = 0; bin < bins; bin++) sums[bin + 1] = sums[bin] + values[start + bin] * scale;
  return sums;
}

function takeLane(packed) {
  const spans = packed.spans.map(([place, start, dur]) => {
    const [name, about, family] = packed.called[place];
    return { name, about, family, start, dur };
  });
  spans.sort((one, other) => one.start - other.start || other.dur - one.dur);
  return { ...packed, spans };
}

// A family's share of a stretch of a track, 1 for all of its time.
function shareOf(track, family, from, to) {
  const sums = track.sums[family];
  return (sumBefore(sums, to / track.bin) - sumBefore(sums, from / track.bin)) / ((to - from) / track.bin);
}

function sumBefore(sums, edge) {
  const at = Math.min(Math.max(edge, 0), sums.length - 1);
  const bin = Math.min(Math.floor(at), sums.length - 2);
  return sums[bin] + (sums[bin + 1] - sums[bin]) * (at - bin);
}

// Lanes of a track with the details of a window in them. Lanes of events stay once they were there, so that rows do not
// jump as the view moves, but where details say that events are too many to read.
function mergedLanes(track, details) {
  const named = new Map(track.lanes.map((lane) => [lane.name, lane]));
  if (!details.some((lane) => lane.note)) for (const name of track.seen) named.set(name, { name, kind: "event", spans: [] });
  for (const lane of details) {
    named.set(lane.name, lane);
    if (lane.kind === "event" && !lane.note) track.seen.add(lane.name);
  }
  const of = (kind) => [...named.values()].filter((lane) => lane.kind === kind);
  const byName = (one, other) => one.name.localeCompare(other.name, "en", { numeric: true }); // stream 7 before 20
  return [...of("phase"), ...of("pause"), ...of("event").sort(byName)];
}

// Rows from the top: { kind, track, y, height } and for lanes { lane, name, spans }.
function laidOut(tracks, details) {
  const rows = [];
  let y = AXIS_PX;
  const add = (row, height, gap = 0) => {
    rows.push({ ...row, y, height });
    y += height + gap;
  };
  tracks.forEach((track, place) => {
    add({ kind: "head", track: place }, HEAD_PX);
    add({ kind: "share", track: place }, SHARE_PX, LANE_GAP_PX);
    for (const lane of mergedLanes(track, details[place] ?? [])) {
      const depths = lane.kind === "event" ? stacked(lane.spans) : [lane.spans];
      depths.forEach((spans, depth) => {
        const name = depth ? "" : lane.name;
        add({ kind: "lane", track: place, lane, name, spans }, LANE_PX, depth === depths.length - 1 ? LANE_GAP_PX : 0);
      });
    }
    y += TRACK_GAP_PX;
  });
  return { rows, height: y };
}

// Spans in rows so that none overlaps another: what runs inside of a span is below it.
function stacked(spans) {
  const rows = [[]];
  const ends = [-Infinity];
  for (const span of spans) {
    let depth = ends.findIndex((end) => end <= span.start + 1e-9);
    if (depth < 0) depth = Math.min(ends.length, MOST_DEPTH - 1);
    (rows[depth] ??= []).push(span);
    ends[depth] = span.start + span.dur;
  }
  return rows;
}

function longestPause(tracks) {
  const pauses = tracks.flatMap((track, place) =>
    track.lanes.filter((lane) => lane.kind === "pause").flatMap((lane) => lane.spans.map((span) => ({ place, span }))),
  );
  return pauses.reduce((most, pause) => (most && most.span.dur >= pause.span.dur ? most : pause), null);
}

// [name, value] of what is pointed at or selected: a family's share of a column, or a span.
function factsOf(item, track, families, shift) {
  if (item.kind === "share") {
    return [
      ["Family", families[item.family].name],
      ["Share of the time", percentage(shareOf(track, item.family, item.from, item.to))],
      ["From", moment(item.from - shift)],
      ["Length", duration(item.to - item.from)],
      ["Trace", track.name],
    ];
  }
  const { span } = item;
  const rows = [[KINDS[item.of], span.name], ["Family", span.about], ["Start", moment(span.start - shift)]];
  rows.push(["Duration", duration(span.dur)], ["Lane", item.of === "event" ? item.lane : ""], ["Trace", track.name]);
  return rows.filter(([, value]) => value);
}

// Words ---------------------------------------------------------------------------------------------------------------

function duration(ms) {
  const [value, unit] = ms < 1e-3 ? [ms * 1e6, "ns"] : ms < 1 ? [ms * 1e3, "µs"] : ms < 1e3 ? [ms, "ms"] : [ms / 1e3, "s"];
  return `${value >= 100 ? Math.round(value) : Number(value.toPrecision(3))} ${unit}`;
}

function moment(ms) {
  return `${ms.toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 })} ms`;
}

function percentage(share) {
  return `${share >= 0.1 ? (100 * share).toFixed(1) : Number((100 * share).toPrecision(2))} %`;
}

// Whether two windows are one to the eye.
function isNear([from, to], [otherFrom, otherTo]) {
  const apart = 1e-6 * Math.max(to - from, otherTo - otherFrom);
  return Math.abs(from - otherFrom) <= apart && Math.abs(to - otherTo) <= apart;
}

function newText(tag, text, name = "") {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}
