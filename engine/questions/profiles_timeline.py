"""Both traces on one axis: families' shares of the time, marked phases, the longest pauses, and single events.

Each trace has its own clock, from its first event on. Shares are stacked, so parallel work adds up to more than 100 %,
and are known to a bin, of which a trace has up to 4,096: closer than that, only events tell more. Zoom with the wheel,
pan by dragging; a click on a family in the legend hides it. *From* and *To* choose a window; in a small one, of a trace
that was added with `--events`, the longest single events are drawn too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.phases import PREFIX
from engine.figures.words import counted, listed, microseconds, percent, shortened
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.store import Store
from engine.store.trace_schema import TRACE_EVENTS

TITLE = "What runs when?"
OF = Of("trace", least=1, most=2)
SIDES = {"device": "Device", "host": "Operators", "call": "Calls into the runtime"}
START, WORK = "its start", "its first work"


def sides(store: Store, entries: Sequence[Entry]) -> list[str]:
    found = store.table("SELECT DISTINCT side FROM trace_timeline", of=[entry.id for entry in entries])
    return [words for side, words in SIDES.items() if side in found["side"].to_pylist()]


OPTIONS = (
    Option("tl_side", None, "Work of", sides),
    Option(
        "tl_align", None, "0 ms is", [START, WORK], help="Its first event, or the first bin in which this side works"
    ),
    Option("tl_from", 0.0, "From", unit="ms", bounds=(0.0, 1e9)),
    Option("tl_to", 0.0, "To", unit="ms", bounds=(0.0, 1e9), help="0: the end"),
)
COLUMNS = {
    "name": Column("trace"),
    "start_ms": Column("time", "ms"),
    "end_ms": Column("to", "ms"),
    "share": Column("share of the time", "%"),
}
CHARTS = (Chart("time", "start_ms", "share", colour="family", high="end_ms", split="name", spans="spans"),)
TABLES = ()
MOST_FAMILIES, MOST_SPANS, MOST_LANES, MOST_ASKED, REST = 7, 1_000, 12, 10_000, "all other"
MOST_NUMBER = 100  # characters at the end of a name that may be its number
NUMBERED = re.compile(r"[\s#:_-]*\d[\d\s.,:#-]*$")  # ProfilerStep#12 is of the lane ProfilerStep
BINS = """
WITH bins AS (SELECT * FROM trace_timeline WHERE side = $side AND busy_us > 0),
first AS (SELECT trace_id, if($from_work, min(bin * width_us), 0) AS zero_us FROM bins GROUP BY ALL)
SELECT trace_id, family, bin * width_us AS start_us, (bin + 1) * width_us AS end_us, zero_us, busy_us,
       busy_us / width_us AS share
FROM bins JOIN first USING (trace_id) ORDER BY trace_id, start_us
"""
# Phases, pauses and events of a window, the longest of each kind. A lane of an event is its stream or its thread.
SPANS = """
WITH spans AS (
    SELECT 'phase' AS kind, name AS lane, name AS what, start_us, dur_us, NULL AS family
    FROM trace_marks WHERE family <> 'gpu_annotation'
    UNION ALL
    SELECT 'pause', 'longest pauses', 'between ' || b.short_name || ' and ' || a.short_name, start_us, gap_us, NULL
    FROM trace_gaps g JOIN trace_ops b ON g.trace_id = b.trace_id AND g.before_op = b.op
    JOIN trace_ops a ON g.trace_id = a.trace_id AND g.after_op = a.op
    UNION ALL
    SELECT 'event', if(o.stream IS NULL, 'thread ' || e.thread,
                       if(coalesce(o.device, '0') = '0', '', 'device ' || o.device || ', ') || 'stream ' || o.stream),
           coalesce(o.short_name, o.name), e.start_us, e.dur_us, o.family
    FROM trace_events e JOIN trace_ops o ON e.trace_id = o.trace_id AND e.op = o.op
    WHERE $with_events AND o.side = $side AND isfinite(e.dur_us)
)
SELECT *, count(*) OVER (PARTITION BY kind) AS count FROM spans WHERE start_us < $end AND start_us + dur_us > $start
QUALIFY row_number() OVER (PARTITION BY kind ORDER BY dur_us DESC, start_us) <= $most
ORDER BY kind = 'event', kind = 'pause', start_us
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    side = next((side for side, words in SIDES.items() if words == options["tl_side"]), "host")
    ids, names = [entry.id for entry in entries], entry_names(entries)
    asked = {"side": side, "from_work": options["tl_align"] == WORK}
    bins = store.table(BINS, asked, of=ids)
    by_family = bins.group_by("family").aggregate([("busy_us", "sum")]).sort_by([("busy_us_sum", "descending")])
    ranked = by_family["family"].to_pylist()
    drawn = ranked if len(ranked) == MOST_FAMILIES + 1 else ranked[:MOST_FAMILIES]  # a single one is no rest
    parts: list[pa.Table] = []
    spans: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    for entry in entries:
        mine = bins.filter(pc.equal(bins["trace_id"], entry.id))
        fact = {"name": names[entry.id], "form": entry.row.get("form"), "origin": entry.row.get("origin")}
        facts.append(fact | {name: entry.row.get(name) for name in ("busy_us", "idle_us")})
        if not mine.num_rows:
            continue
        zero = mine["zero_us"][0].as_py()
        length_ms = ((entry.row.get("span_us") or pc.max(mine["end_us"]).as_py()) - zero) / 1000
        low, high = options["tl_from"], options["tl_to"] or max(length_ms, options["tl_from"])
        window = zero + 1000 * low, zero + 1000 * high
        inside = mine.filter(pc.and_(pc.less(mine["start_us"], window[1]), pc.greater(mine["end_us"], window[0])))
        families = np.array(inside["family"].to_pylist(), dtype=object)
        parts.append(pa.table({
            "place": pa.array([len(parts)] * len(families), pa.int64()),
            "name": pa.array([names[entry.id]] * len(families), pa.string()),
            "family": pa.array(np.where(np.isin(families, drawn), families, REST), pa.string()),
            "start_ms": pc.divide(pc.subtract(inside["start_us"], zero), 1000.0),
            "end_ms": pc.divide(pc.subtract(inside["end_us"], zero), 1000.0),
            "share": inside["share"],
        }))  # fmt: skip
        expected = (entry.row.get("events") or 0) * min(1.0, (high - low) / max(length_ms, 1e-9))
        has_events = TRACE_EVENTS.name in entry.parts
        asked = {"side": side, "start": window[0], "end": window[1], "most": MOST_SPANS}
        asked["with_events"] = has_events and expected <= MOST_ASKED
        found = store.table(SPANS, asked, of=[entry.id]).to_pylist()
        for span in found:
            lane = span["lane"].removeprefix(PREFIX)
            span |= {
                "name": names[entry.id],
                "lane": lane[:-MOST_NUMBER] + NUMBERED.sub("", lane[-MOST_NUMBER:]) or lane
                if span["kind"] == "phase"
                else lane,
            }
            span |= {"start": (span["start_us"] - zero) / 1000, "what": span["what"].removeprefix(PREFIX)}
            span |= {"end": (span["start_us"] + span["dur_us"] - zero) / 1000}
        lanes = list(dict.fromkeys(span["lane"] for span in found))
        spans += [span for span in found if span["lane"] in lanes[:MOST_LANES]]
        low_us, high_us = (inside[name].to_numpy() for name in ("start_us", "end_us"))
        work_us = inside["share"].to_numpy() * (np.minimum(high_us, window[1]) - np.maximum(low_us, window[0]))
        taken = {family: float(work_us[families == family].sum()) for family in set(families)}
        first = max(taken, key=lambda family: taken[family], default="")
        count = {span["kind"]: span["count"] for span in found}
        pauses = [span["dur_us"] for span in found if span["kind"] == "pause"]
        facts[-1] |= {"low": low, "high": high, "window_us": 1000 * (high - low), "work_us": sum(taken.values()),
                      "first": first, "first_us": taken.get(first), "has_events": has_events, "lanes": len(lanes),
                      "is_asked": asked["with_events"], "is_whole": not options["tl_from"] and not options["tl_to"],
                      "phase": count.get("phase", 0), "event": count.get("event", 0),
                      "pause_us": max(pauses, default=None)}  # fmt: skip
    main = pa.concat_tables(parts) if parts else rows_table([], ["name", "family", "start_ms", "end_ms", "share"])
    if parts:  # what takes most comes first, in both traces
        main = main.append_column("rank", pc.index_in(main["family"], pa.array([*drawn, REST])))
        main = main.group_by(["rank", "place", "name", "family", "start_ms", "end_ms"], use_threads=False)
        main = main.aggregate([("share", "sum")]).rename_columns({"share_sum": "share"})
        order = [("rank", "ascending"), ("place", "ascending"), ("start_ms", "ascending")]
        main = main.sort_by(order).drop_columns(["rank", "place"])
    kept = ("name", "lane", "what", "kind", "family", "start", "end")
    rows = [{name: span[name] for name in kept} for span in spans]
    return {"main": main, "spans": rows_table(rows, kept), "facts": rows_table(facts)}


def answer(tables: Tables, options: Options) -> str:
    lines, notes = [], []
    for fact in tables["facts"].to_pylist():
        name, window = fact["name"], fact.get("window_us")
        if not window:
            why = f"has no timeline of {str(options['tl_side'] or 'work').lower()}"
            why = "is a table of sums, which has no timeline" if fact["form"] == "table" else why
            notes.append(f"{name} {why}.")
            continue
        where = "" if fact["is_whole"] else f" from {fact['low']:,.3f} to {fact['high']:,.3f} ms"
        if fact["is_whole"] and fact["busy_us"] is not None and fact["idle_us"] is not None:
            active = fact["busy_us"] + fact["idle_us"]
            pause = f"; its longest pause is {microseconds(fact['pause_us'])}" if fact["pause_us"] else ""
            busy, idle = percent(fact["busy_us"] / active), percent(fact["idle_us"] / active)
            lines.append(
                f"{name}: between first and last work the device is busy {busy} of the time, idle {idle}{pause}."
            )
        elif not fact["work_us"]:
            lines.append(f"{name} is idle{where}.")
        else:
            work, largest = percent(fact["work_us"] / window), percent(fact["first_us"] / window)
            lines.append(f"{name}{where}: work takes {work} of {microseconds(window)}, the largest is {fact['first']} "
                         f"with {largest}.")  # fmt: skip
        left = [f"the {MOST_SPANS:,} longest of {counted(fact[kind], noun)}" for kind, noun in
                (("phase", "mark"), ("event", "event")) if fact[kind] > MOST_SPANS]  # fmt: skip
        left += [f"{MOST_LANES} of {fact['lanes']:,} lanes"] if fact["lanes"] > MOST_LANES else []
        if left:
            notes.append(f"{shortened(name, 120)}: drawn are {listed(left)} in the window.")
        if fact["has_events"] and not fact["is_asked"]:
            notes.append(f"{name}: too many events here to show each. Choose a smaller window.")
        elif not fact["has_events"]:
            notes.append(f"{name}: single events were not kept (`trace add --events` keeps them).")
    return answer_text(lines or ["These traces have no timeline."], notes)
