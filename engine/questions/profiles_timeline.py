"""Both traces on one axis: families' shares of the time, marked phases, the longest pauses, and single events.

Each trace has its own clock, from its first event on. Shares are stacked, so parallel work adds up to more than 100 %.
They are means over what is about a pixel wide, and are known to a bin, of which a trace has up to 4,096: closer than
that, only events tell more. Zoom with the wheel, pan by dragging; a click on a family in the legend hides it. *From*
and *To* choose a window, with as many means as the whole; in a small one, of a trace that was added with `--events`,
the longest single events are drawn too. *Search* fades what has another name. A family that is pinned in *Families* is
the lowest of the shares. *Save for Perfetto* writes what is drawn as a Chrome trace: slices by lane, and the shares as
counters; open the file in Perfetto or `chrome://tracing`, or add it to a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.decode.steps import PREFIX
from engine.figures.words import counted, fixed, listed, microseconds, percent, shortened
from engine.profile.save_trace import chrome_trace
from engine.profile.traces import families_of
from engine.questions.question import Chart, Column, Download, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.schema import TRACE_EVENTS
from engine.store.store import Store

TITLE = "What runs when?"
OF = Of("trace", least=1, most=2)
SIDES = {"device": "Device", "host": "Operators", "call": "Calls into the runtime"}
START, WORK_FIRST = "its start", "its first work"


def sides(store: Store, entries: Sequence[Entry]) -> list[str]:
    table = store.table("SELECT DISTINCT side FROM trace_timeline", of=[entry.id for entry in entries])
    return [words for side, words in SIDES.items() if side in table["side"].to_pylist()]


OPTIONS = (
    Option("tl_side", None, "Work of", sides),
    Option("tl_align", None, "0 ms is", [START, WORK_FIRST],
           help="Its first event, or the first bin in which this side works"),
    Option("tl_from", 0.0, "From", unit="ms", bounds=(0.0, 1e9)),
    Option("tl_to", 0.0, "To", unit="ms", bounds=(0.0, 1e9), help="0, or before From: the end"),
    Option("tl_find", "", "Search", help="Words in the name of a slice or a family; what has them keeps its colour"),
    Option("pinned", "", "Pinned", families_of, is_open=True),
)  # fmt: skip
COLUMNS = {
    "name": Column("trace"),
    "start_ms": Column("time", "ms"),
    "end_ms": Column("to", "ms"),
    "share": Column("share of the time", "%"),
    "is_faint": Column(is_hidden=True),
}
CHARTS = (Chart("time", "start_ms", "share", colour="family", high="end_ms", split="name", spans="spans",
                faint="is_faint"),)  # fmt: skip
TABLES = ()
DOWNLOADS = (Download("Save for Perfetto", "timeline.json", chrome_trace, "What is drawn, as a Chrome trace"),)
MOST_FAMILIES, MOST_SPANS, MOST_LANES, MOST_ASKED, REST = 7, 1_000, 12, 10_000, "all other"
Row = dict[str, Any]
EntryRows = tuple[list[Row], list[Row], Row]
MOST_COLUMNS = 800  # of a window: the chart is some 1,000 pixels wide, and drops steps that are narrower than one
BINS = """
WITH bins AS (SELECT *, bin * width_us AS start_us, (bin + 1) * width_us AS end_us FROM trace_timeline
              WHERE side = $side AND busy_us > 0)
"""
FAMILIES = f"{BINS} SELECT family FROM bins GROUP BY ALL ORDER BY sum(busy_us) DESC"
ZERO = f"{BINS} SELECT if($from_work, min(start_us), 0) AS zero_us FROM bins HAVING count(*) > 0"
# Bins side by side from the window's first on, as many as make a column of the axis; the last column may have fewer.
SHARES = f"""
{BINS}, measured AS (
    SELECT floor($start / any_value(width_us) + 1e-6)::BIGINT AS first_bin,
           greatest(1, ceil($length / any_value(width_us) / {MOST_COLUMNS}))::BIGINT AS wide,
           greatest(ceil($span / any_value(width_us)), max(bin) + 1)::BIGINT AS bins
    FROM bins
), wide_bins AS (
    SELECT family, busy_us, (first_bin + (bin - first_bin) // wide * wide) * width_us AS start_us,
           least(first_bin + ((bin - first_bin) // wide + 1) * wide, measured.bins) * width_us AS end_us
    FROM bins, measured WHERE bin >= first_bin
)
SELECT if(list_contains($drawn::VARCHAR[], family), family, $rest) AS family, (start_us - $zero) / 1000.0 AS start_ms,
       (end_us - $zero) / 1000.0 AS end_ms, sum(busy_us) / (end_us - start_us) AS share
FROM wide_bins WHERE start_us < $end AND end_us > $start GROUP BY 1, start_us, end_us
"""
WORK = f"""
{BINS}
SELECT family, sum(busy_us / width_us * (least(end_us, $end) - greatest(start_us, $start))) AS us
FROM bins WHERE start_us < $end AND end_us > $start GROUP BY ALL ORDER BY us DESC
"""
# Phases, pauses and events of a window, the longest of each kind. A lane of an event is its stream or its thread, of a
# mark its name without a number at the end: ProfilerStep#12 is of the lane ProfilerStep.
SPANS = """
WITH marks AS (
    SELECT if(starts_with(name, $prefix), name[length($prefix) + 1:], name) AS what, start_us, dur_us
    FROM trace_marks WHERE family <> 'gpu_annotation'
),
spans AS (
    SELECT coalesce(nullif(regexp_replace(what, '[\\s#:_-]*\\d[\\d\\s.,:#-]*$', ''), ''), what) AS lane,
           what, 'phase' AS kind, NULL AS family, start_us, dur_us FROM marks
    UNION ALL
    SELECT 'longest pauses', 'between ' || b.short_name || ' and ' || a.short_name, 'pause', NULL, start_us, gap_us
    FROM trace_gaps g JOIN trace_ops b ON g.trace_id = b.trace_id AND g.before_op = b.op
    JOIN trace_ops a ON g.trace_id = a.trace_id AND g.after_op = a.op
    UNION ALL
    SELECT if(o.stream IS NULL, 'thread ' || e.thread,
              if(coalesce(o.device, '0') = '0', '', 'device ' || o.device || ', ') || 'stream ' || o.stream),
           coalesce(o.short_name, o.name), 'event', o.family, e.start_us, e.dur_us
    FROM trace_events e JOIN trace_ops o ON e.trace_id = o.trace_id AND e.op = o.op
    WHERE $with_events AND o.side = $side AND isfinite(e.dur_us)
)
, named AS (
    SELECT *, coalesce(list_bool_and(list_transform($words::VARCHAR[],
                  lambda word: contains(lower(concat_ws(' ', what, family)), word))), true) AS is_found
    FROM spans WHERE start_us < $end AND start_us + dur_us > $start
)
SELECT lane, what, kind, family, (start_us - $zero) / 1000 AS start, (start_us + dur_us - $zero) / 1000 AS end, dur_us,
       count(*) OVER (PARTITION BY kind) AS count, NOT is_found AS is_faint, $side AS side,
       count(*) FILTER (is_found) OVER () AS found
FROM named QUALIFY row_number() OVER (PARTITION BY kind ORDER BY is_found DESC, dur_us DESC, start_us) <= $most
ORDER BY kind = 'event', kind = 'pause', start_us
"""


@dataclass(frozen=True, slots=True)
class Window:
    """What is drawn of a trace."""

    zero_us: float  # where 0 ms is, after its first event
    low_ms: float
    high_ms: float

    @property
    def start_us(self) -> float:
        return self.zero_us + 1000 * self.low_ms

    @property
    def end_us(self) -> float:
        return self.zero_us + 1000 * self.high_ms

    @property
    def length_us(self) -> float:
        return 1000 * (self.high_ms - self.low_ms)


def windows_of(store: Store, entries: Sequence[Entry], side: str, options: Options) -> dict[str, Window]:
    """By id, of the traces that have work of this side."""
    windows = {}
    for entry in entries:
        parameters = {"side": side, "from_work": options["tl_align"] == WORK_FIRST}
        for row in store.table(ZERO, parameters, of=[entry.id]).to_pylist():
            low, high = options["tl_from"], options["tl_to"]
            if high <= low:
                high = max((entry.row["span_us"] - row["zero_us"]) / 1000, low)
            windows[entry.id] = Window(row["zero_us"], low, high)
    return windows


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    side = next((side for side, words in SIDES.items() if words == options["tl_side"]), "host")
    ids, names = [entry.id for entry in entries], entry_names(entries)
    windows = windows_of(store, entries, side, options)
    length_us = max((window.length_us for window in windows.values()), default=0.0)  # of the axis, which they share
    drawn = drawn_families(store, ids, side, options["pinned"])
    words = options["tl_find"].lower().split()
    rows: list[Row] = []
    spans: list[Row] = []
    facts: list[Row] = []
    axis = {"side": side, "drawn": drawn, "rest": REST, "length": length_us}
    for entry in entries:
        name = {"name": names[entry.id]}
        of_window: Row = {}
        if entry.id in windows:
            shares, in_window, figures = entry_rows(store, entry, windows[entry.id], axis, words)
            rows += [name | row for row in shares]
            spans += [name | span for span in in_window]
            of_window = {**figures, "is_whole": not options["tl_from"] and not options["tl_to"]}
        of_trace = {column: entry.row.get(column) for column in ("form", "busy_us", "idle_us")}
        facts.append({**name, **of_trace, **of_window})
    # What takes most comes first, in both traces.
    rank, order = [*drawn, REST].index, [*names.values()].index
    rows.sort(key=lambda row: (rank(row["family"]), order(row["name"]), row["start_ms"]))
    kept = ("name", "lane", "what", "kind", "family", "start", "end", "is_faint", "side")
    return {
        "main": rows_table(rows, ["name", "family", "start_ms", "end_ms", "share"]),
        "spans": rows_table([{name: span[name] for name in kept} for span in spans], kept),
        "facts": rows_table(facts),
    }


def drawn_families(store: Store, ids: Sequence[str], side: str, pinned: str | None) -> list[str]:
    """The pinned one, then those that take most."""
    ranked: list[str] = store.table(FAMILIES, {"side": side}, of=ids)["family"].to_pylist()
    ranked.sort(key=lambda family: family != pinned)
    return ranked if len(ranked) == MOST_FAMILIES + 1 else ranked[:MOST_FAMILIES]  # a single one is no rest


def entry_rows(store: Store, entry: Entry, window: Window, axis: Row, words: list[str]) -> EntryRows:
    """Shares and spans of a trace's window, and what the sentences say of it."""
    about = {"side": axis["side"], "start": window.start_us, "end": window.end_us}
    zero = {"zero": window.zero_us}
    shares = store.table(SHARES, axis | about | zero | {"span": entry.row["span_us"]}, of=[entry.id]).to_pylist()
    has_events = TRACE_EVENTS.name in entry.parts
    length_ms = (entry.row["span_us"] - window.zero_us) / 1000
    expected = (entry.row.get("events") or 0) * min(1.0, (window.high_ms - window.low_ms) / max(length_ms, 1e-9))
    is_asked = has_events and expected <= MOST_ASKED
    more = {"most": MOST_SPANS, "prefix": PREFIX, "with_events": is_asked, "words": words}
    spans = store.table(SPANS, about | zero | more, of=[entry.id]).to_pylist()
    lanes = list(dict.fromkeys(span["lane"] for span in spans))
    families = store.table(WORK, about, of=[entry.id]).to_pylist() or [{"family": "", "us": None}]
    count = {span["kind"]: span["count"] for span in spans}
    fact = {
        "low": window.low_ms,
        "high": window.high_ms,
        "window_us": window.length_us,
        "first": families[0]["family"],
        "first_us": families[0]["us"],
        "work_us": sum(row["us"] or 0 for row in families),
        "has_events": has_events,
        "is_asked": is_asked,
        "lanes": len(lanes),
        "phase": count.get("phase", 0),
        "event": count.get("event", 0),
        "found": max((span["found"] for span in spans), default=0),
        "pause_us": max((span["dur_us"] for span in spans if span["kind"] == "pause"), default=None),
    }
    shares = [row | {"is_faint": not all(word in row["family"].lower() for word in words)} for row in shares]
    return shares, [span for span in spans if span["lane"] in lanes[:MOST_LANES]], fact


def answer(tables: Tables, options: Options) -> str:
    lines, notes = [], []
    for fact in tables["facts"].to_pylist():
        name = fact["name"]
        if fact.get("window_us"):
            lines.append(work_words(fact))
            notes += left_out(fact)
            if options["tl_find"].strip():
                notes.append(f"{name}: {counted(fact['found'], 'slice')} in the window with these words.")
        elif fact["form"] == "table":
            notes.append(f"{name} is a table of sums, which has no timeline.")
        else:
            notes.append(f"{name} has no timeline of {str(options['tl_side'] or 'work').lower()}.")
    return answer_text(lines or ["These traces have no timeline."], notes)


def work_words(fact: Row) -> str:
    """Of a whole trace how busy its device is, where that is known; else how much work a window has."""
    name = fact["name"]
    if fact["is_whole"] and fact["busy_us"] is not None and fact["idle_us"] is not None:
        active = fact["busy_us"] + fact["idle_us"]
        pause = f"; its longest pause is {microseconds(fact['pause_us'])}" if fact["pause_us"] else ""
        busy, idle = percent(fact["busy_us"] / active), percent(fact["idle_us"] / active)
        return f"{name}: between first and last work the device is busy {busy} of the time, idle {idle}{pause}."
    where = "" if fact["is_whole"] else f" from {fixed(fact['low'], 3)} to {fixed(fact['high'], 3)} ms"
    if not fact["work_us"]:
        return f"{name} is idle{where}."
    window = fact["window_us"]
    work, largest = percent(fact["work_us"] / window), percent(fact["first_us"] / window)
    return f"{name}{where}: work takes {work} of {microseconds(window)}, the largest is {fact['first']} with {largest}."


def left_out(fact: Row) -> list[str]:
    """What of a window is not drawn."""
    notes, drawn = [], []
    for kind, noun in (("phase", "mark"), ("event", "event")):
        if fact[kind] > MOST_SPANS:
            drawn.append(f"the {MOST_SPANS:,} longest of {counted(fact[kind], noun)}")
    if fact["lanes"] > MOST_LANES:
        drawn.append(f"{MOST_LANES} of {fact['lanes']:,} lanes")
    if drawn:
        notes.append(f"{shortened(fact['name'], 120)}: drawn are {listed(drawn)} in the window.")
    if fact["has_events"] and not fact["is_asked"]:
        notes.append(f"{fact['name']}: too many events here to show each. Choose a smaller window.")
    return notes
