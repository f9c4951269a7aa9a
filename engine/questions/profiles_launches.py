"""What launching work on a device costs, what waits for it, what is copied, and when it idles.

Each kernel is launched by the host: a call of some microseconds, even for a short kernel. More launches for the same
work mean smaller kernels, and kernels that are shorter than their launch leave the device idle. A CUDA graph launches
all kernels that were captured in it by one call, which is counted apart. The delay from launch
to kernel is long when launches run ahead of the device (good), short when the device waits for the host. A wait stops
the host until the device is done, such as to read a sampled token; it is no loss while the device is busy. Attention is
called once per layer and forward pass: divided by the layers it gives passes, not tokens. On a CPU nothing is launched;
there operators are counted, those inside others too. An empty cell means unknown; 0 means none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.figures.statistics import quotient
from engine.figures.words import listed, microseconds, number, percent, speed, times, whole
from engine.profile.traces import COMPUTE, NOTHING, Trace, incomparable, traces_of
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "What do launches, waits and copies cost?"
OF = Of("trace", least=1, most=2)
COLUMNS = {
    "what": Column("figure", is_pinned=True),
    "compared": Column("test against control"),
    "family": Column("family", is_pinned=True),
    "a_token": Column("calls per token"),
    "name": Column("trace"),
}
CHARTS = (Chart("points", "a_token", "family", "operators", colour="name"),)
TABLES = ("table",)
RUNTIME = ("launch", "graph_launch", "sync")  # families of calls into the runtime; the others are work
COUNTED = {
    "launch": "kernel launches",
    "graph_launch": "CUDA graph launches",
    "sync": "waits for the device",
    "memcpy": "copies between memories",
    "copy": "copies as kernels or operators",
    "concat": "concatenations",
    "attention": "attention calls",
}
Row = dict[str, Any]
Figure = tuple[str, str, str, float | None]  # name, what it is, unit (µs, % or empty for a count), value
# In the data, not in the table.
DETAIL = ("work_calls", "tokens", "samples", "forward_passes", "compute_share", "compute_span_share", "other_share")
MOST_FAMILIES = 8


def figures_of(trace: Trace) -> Iterator[Figure]:
    """The same names in the same order for every trace. What it does not know is None."""
    work = trace.work()
    compute = trace.work(*COMPUTE).us if trace.is_whole else None
    tokens, samples, passes = map(trace.known, ("tokens", "samples", "forward_passes"))
    span, before = trace.span_us, sum(trace.work_before_us.values())
    yield "span_us", "span, of marked passes from the first one on", "µs", span
    yield "work_us", "work, summed", "µs", work.us
    yield "before_us", "work before the first pass, apart", "µs", before or None
    yield "work_calls", "operations of work", "", work.calls
    yield "tokens", "tokens covered", "", tokens
    yield "samples", "samples covered", "", samples
    yield "forward_passes", "forward passes covered", "", passes
    yield "work_us_a_token", "work per token", "µs", quotient(work.us, tokens)
    yield "work_us_a_sample", "work per sample", "µs", quotient(work.us, samples)
    yield "work_us_a_pass", "work per forward pass", "µs", quotient(work.us, passes)
    yield "compute_share", "attention and gemm, share of work", "%", quotient(compute, work.us, 100)
    yield "compute_span_share", "attention and gemm, share of span", "%", quotient(compute, span, 100)
    busy, idle, gaps = map(trace.known, ("busy_us", "idle_us", "gaps"))
    active = None if busy is None or idle is None else busy + idle
    yield "idle_share", "device idle between first and last work", "%", quotient(idle, active, 100)
    yield "gaps", "idle gaps of a device", "", gaps
    yield "gap_us", "mean idle gap", "µs", quotient(idle, gaps)
    overlap = quotient(trace.known("overlap_us"), busy, 100)
    yield "overlap_share", "share of busy time with two operations or more", "%", overlap
    yield "copy_overlap_us", "copy and compute at once", "µs", trace.known("copy_overlap_us")
    # Without calls into the runtime, neither launches nor waits are known, nor on a CPU copies between memories.
    unknown: tuple[str, ...] = RUNTIME if trace.work_side == "device" else (*RUNTIME, "memcpy")
    if trace.has_calls:
        unknown = ()
    for family, label in COUNTED.items():
        side = "call" if family in RUNTIME else trace.work_side
        totals = trace.families.get((side, family), NOTHING)
        is_known = family not in unknown and (trace.is_whole or totals.calls > 0)
        calls = totals.calls if is_known else None
        yield f"{family}_calls", label, "", calls
        yield f"{family}_us", f"{label}: time", "µs", totals.us if is_known else None
        yield f"{family}_mean_us", f"{label}: mean time", "µs", totals.mean_us if is_known else None
        yield f"{family}_a_token", f"{label} per token", "", quotient(calls, tokens)
        yield f"{family}_a_pass", f"{label} per forward pass", "", quotient(calls, passes)
    yield "delay_us", "mean delay from launch to kernel", "µs", trace.delay_us
    other = trace.known("other_share")
    yield "other_share", "share of work in no family", "%", None if other is None else 100 * other


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    control, test = traces_of(store, entries)
    traces = (control, test)[: len(entries)]
    rows: list[Row] = [
        {"name": name, "what": label, "unit": unit, "control": left, "test": right, "ratio": quotient(right, left)}
        for (name, label, unit, left), (_, _, _, right) in zip(figures_of(control), figures_of(test), strict=True)
    ]
    is_alike = control.work_side == test.work_side
    shown = [row | {"compared": compared_words(row, is_alike=is_alike)} for row in known_rows(rows)]
    columns = ["what", "control", "unit"] if len(entries) == 1 else ["what", "control", "test", "compared", "unit"]
    reason = incomparable(control, test)
    operators = [row for trace in traces for row in operators_of(trace)]
    return {
        "main": rows_table(rows, ["name", "what", "unit", "control", "test", "ratio"]),
        "table": rows_table(shown, columns).select(columns),
        "operators": rows_table(operators, ["name", "family", "a_token"]),
        "facts": rows_table([{"trace": trace.name, "reason": reason} for trace in traces]),
    }


def known_rows(rows: Sequence[Row]) -> list[Row]:
    """Those of the table: without details, and without what neither trace has a call of."""
    calls = [row for row in rows if row["name"].endswith("_calls")]
    none = {family_of(row) for row in calls if not row["control"] and not row["test"]}
    known = [row for row in rows if (row["control"], row["test"]) != (None, None)]
    return [row for row in known if row["name"] not in DETAIL and family_of(row) not in none]


def family_of(row: Row) -> str:
    """``launch`` of ``launch_us``"""
    return str(row["name"]).partition("_")[0]


def operators_of(trace: Trace) -> list[Row]:
    """Calls per token by family, where operators run as they are called."""
    tokens = trace.known("tokens")
    if not tokens or trace.work_side != "host" or trace.has_calls:
        return []
    calls = {family: totals.calls for (side, family), totals in trace.families.items() if side == "host"}
    most = sorted(calls, key=lambda family: -calls[family])[:MOST_FAMILIES]
    return [{"name": trace.name, "family": family, "a_token": calls[family] / tokens} for family in most]


def compared_words(row: Row, *, is_alike: bool) -> str:
    """``4.40× faster`` of a time, ``0.802×`` of a count; of the span alone where one trace is of a CPU's operators."""
    if not row["ratio"] or not (is_alike or row["name"] == "span_us"):
        return ""
    return speed(row["ratio"]) if row["unit"] == "µs" else times(row["ratio"])


def answer(tables: Tables, options: Options) -> str:
    figures = {row["name"]: row for row in tables["main"].to_pylist()}
    facts = tables["facts"].to_pylist()
    lines = []
    for fact, side in zip(facts, ("control", "test"), strict=False):
        lines.append(f"{fact['trace']}{trace_words({name: row[side] for name, row in figures.items()})}.")
    ratio = figures["launch_a_token"]["ratio"] or figures["launch_calls"]["ratio"]
    if len(facts) > 1 and ratio and not facts[0]["reason"]:
        each = "launches per token" if figures["launch_a_token"]["ratio"] else "launches"
        lines.append(f"{facts[1]['trace']} has {times(ratio)} the {each} of {facts[0]['trace']}.")
    return answer_text(lines, dict.fromkeys(fact["reason"] for fact in facts if fact["reason"]))


def trace_words(value: Mapping[str, Any]) -> str:
    """Of one trace's figures, by name."""
    if value["launch_calls"] is None:
        per_token = f", {number(value['work_calls'] / value['tokens'])} per token" if value["tokens"] else ""
        return f" has no launches: its operators run as they are called{per_token}"
    parts = []
    said = {"launch": "kernels launched", "graph_launch": "CUDA graphs launched", "sync": "waits for the device"}
    for family, label in said.items():
        per_token, count = value[f"{family}_a_token"], value[f"{family}_calls"]
        if count or (count is not None and family != "graph_launch"):
            parts.append(f"{number(per_token)} {label} per token" if per_token else f"{whole(count)} {label}")
    if value["idle_share"] is not None:
        parts.append(f"the device idles {percent(value['idle_share'] / 100)} of its time")
    if value["delay_us"] is not None:
        parts.append(f"a kernel begins {microseconds(value['delay_us'])} after its launch")
    return f": {listed(parts)}"
