"""What launching work on a device costs, what waits for it, what is copied, and when it idles.

Each kernel is launched by the host: a call of some microseconds, even for a short kernel. More launches for the same
work mean smaller kernels, and kernels that are shorter than their launch leave the device idle. The delay from launch
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
OPTIONS = ()
COLUMNS = {
    "what": Column("figure", is_pinned=True),
    "compared": Column("test against control"),
    "family": Column("family", is_pinned=True),
    "a_token": Column("calls per token"),
    "name": Column("trace"),
}
CHARTS = (Chart("points", "a_token", "family", "operators", colour="name"),)
TABLES = ("table",)
RUNTIME = ("launch", "sync")  # families of calls into the runtime; the others are work
COUNTED = {
    "launch": "kernel launches",
    "sync": "waits for the device",
    "memcpy": "copies between memories",
    "copy": "copies as kernels or operators",
    "concat": "concatenations",
    "attention": "attention calls",
}
Figure = tuple[str, str, str, float | None]  # name, what it is, unit (µs, % or empty for a count), value
# In the data, not in the table.
DETAIL = ("work_calls", "tokens", "samples", "forward_passes", "compute_share", "compute_span_share", "other_share")
MOST_FAMILIES = 8


def figures_of(trace: Trace) -> Iterator[Figure]:
    """The same names in the same order for every trace. What it does not know is None."""
    work, compute = trace.work(), trace.work(*COMPUTE).us if trace.is_whole else None
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
    unknown = () if trace.has_calls else RUNTIME if trace.work_side == "device" else (*RUNTIME, "memcpy")
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
    rows: list[dict[str, Any]] = [
        {"name": name, "what": label, "unit": unit, "control": left, "test": right, "ratio": quotient(right, left)}
        for (name, label, unit, left), (_, _, _, right) in zip(figures_of(control), figures_of(test), strict=True)
    ]
    none = {
        row["name"].partition("_")[0]
        for row in rows
        if row["name"].endswith("_calls") and not row["control"] and not row["test"]
    }
    is_alike = control.work_side == test.work_side  # else kernels of a device would be compared with operators of a CPU
    shown = [
        row | {"compared": compared_words(row) if is_alike or row["name"] == "span_us" else ""}
        for row in rows
        if (row["control"], row["test"]) != (None, None)
        and row["name"] not in DETAIL
        and row["name"].partition("_")[0] not in none
    ]
    operators = []
    traces = (control, test)[: len(entries)]
    for trace in traces:
        tokens = trace.known("tokens")
        if tokens and trace.work_side == "host" and not trace.has_calls:
            families = sorted(trace.families.items(), key=lambda pair: -pair[1].calls)
            operators += [
                {"name": trace.name, "family": family, "a_token": totals.calls / tokens}
                for (side, family), totals in families
                if side == "host"
            ][:MOST_FAMILIES]
    columns = ["what", "control", "unit"] if len(entries) == 1 else ["what", "control", "test", "compared", "unit"]
    reason = incomparable(control, test)
    return {
        "main": rows_table(rows, ["name", "what", "unit", "control", "test", "ratio"]),
        "table": rows_table(shown, columns).select(columns),
        "operators": rows_table(operators, ["name", "family", "a_token"]),
        "facts": rows_table([{"trace": trace.name, "reason": reason} for trace in traces]),
    }


def compared_words(row: Mapping[str, Any]) -> str:
    """``4.40× faster`` of a time, ``0.802×`` of a count."""
    words = speed if row["unit"] == "µs" else times
    return words(row["ratio"]) if row["ratio"] else ""


def answer(tables: Tables, options: Options) -> str:
    figures = {row["name"]: row for row in tables["main"].to_pylist()}
    facts, lines = tables["facts"].to_pylist(), []
    calls, tokens = figures["work_calls"], figures["tokens"]
    for fact, side in zip(facts, ("control", "test"), strict=False):
        value = {name: row[side] for name, row in figures.items()}
        if value["launch_calls"] is None:
            per_token = f", {number(calls[side] / tokens[side])} per token" if tokens[side] else ""
            lines.append(f"{fact['trace']} has no launches: its operators run as they are called{per_token}.")
            continue
        parts = []
        for family, label in (("launch", "kernels launched"), ("sync", "waits for the device")):
            per_token, count = value[f"{family}_a_token"], value[f"{family}_calls"]
            if count is not None:
                parts.append(f"{number(per_token)} {label} per token" if per_token else f"{whole(count)} {label}")
        if value["idle_share"] is not None:
            parts.append(f"the device idles {percent(value['idle_share'] / 100)} of its time")
        if value["delay_us"] is not None:
            parts.append(f"a kernel begins {microseconds(value['delay_us'])} after its launch")
        lines.append(f"{fact['trace']}: {listed(parts)}.")
    ratio = figures["launch_a_token"]["ratio"] or figures["launch_calls"]["ratio"]
    if len(facts) > 1 and ratio and not facts[0]["reason"]:
        each = "launches per token" if figures["launch_a_token"]["ratio"] else "launches"
        lines.append(f"{facts[1]['trace']} has {times(ratio)} the {each} of {facts[0]['trace']}.")
    return answer_text(lines, dict.fromkeys(fact["reason"] for fact in facts if fact["reason"]))
