"""Work by families of operations, and how a control's time becomes a test's: by more calls and by slower ones.

A family's difference is split in two parts that add up: more or fewer calls, each at the mean of both times, and slower
or faster calls; a family that only one of the two has is all calls. It shows how much, not why, and telling noise apart
takes more than one trace of each. The reports call attention and products of matrices (gemm) real compute and all else
overhead; norms, copies and elementwise work of the same model are part of that rest, and over the span also the time in
which nothing runs. Families are rules over names, in `data/trace_families.toml`; *other* is what none matches. To add
your own, name a file of such rules in `DRIFTSCOPE_TRACE_FAMILIES`, and add the trace again. Work before the first pass
is done once: it stands apart, and is not divided. A wrapper, as `aten::linear` is of `aten::addmm`, is no call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.figures.statistics import quotient
from engine.figures.words import listed, microseconds, number, percent, signed_microseconds, speed, times
from engine.lp_records import LEGAL_ROWS, NO_LP
from engine.models.loading import sized
from engine.profile.traces import (
    COMPUTE,
    NOTHING,
    PERS,
    WINDOW,
    Trace,
    cautions,
    incomparable,
    pair_row,
    split_us,
    traces_of,
)
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, model_name
from engine.store.store import Store

TITLE = "Where does the time go?"
OF = Of("trace", least=1, most=2)


def pers(store: Store, entries: Sequence[Entry]) -> list[str]:
    return [words for words, count in PERS.items() if not count or all(entry.row.get(count) for entry in entries)]


OPTIONS = (
    Option("per", None, "Time", pers, help="What the traces' times are divided by, where both know it"),
    Option("compute", None, "Real compute", ["of the work", "of the span"]),
    Option("columns", False, "All columns", help="Also times per call, ratios, and both parts of each difference"),
)
SIDES = ("control", "test")
PAIRS = {
    **{f"calls_{s}": Column(f"calls, {s}") for s in SIDES},
    "calls_ratio": Column("calls, ratio", "×", "Test over control"),
    **{f"total_us_{s}": Column(f"time, {s}", "µs", "All calls") for s in SIDES},
    "total_us_speed": Column("time, compared"),
    **{f"mean_us_{s}": Column(f"each, {s}", "µs", "Time per call") for s in SIDES},
    "mean_us_speed": Column("each, compared"),
}
COLUMNS = {
    "family": Column("family", is_pinned=True, help="Rules over the names of operations"),
    "side": Column("side", help="device; host: operators on a CPU, without those inside them; call: into the runtime"),
    **PAIRS,
    **{f"us_{s}": Column(s, "µs", "Time of the family, as chosen above") for s in ("control", "test")},
    "us_difference": Column("difference", "µs", "Test less control"),
    "us_by_calls": Column("by calls", "µs", "Cost of more calls"),
    "us_by_each": Column("by each", "µs", "Cost of slower calls"),
    **{f"share_{s}": Column(f"share, {s}", "%", "Of all work of the trace") for s in ("control", "test")},
    **{f"before_us_{s}": Column(f"{s}, before the first pass", "µs", "Once, and not divided") for s in SIDES},
    "end": Column("work, ms"),
    "share": Column("share", "%"),
}
CHARTS = (
    Chart("bars", "end", "step", "steps", colour="move", low="start", text="change", hover=("step", "change")),
    Chart("bars", "share", "name", "compute", colour="part", hover=("name", "part", "share")),
)
TABLES = ("table", "before")
MOST_STEPS, MOST_NAMED, SMALL, SMALL_BEFORE, REST = 8, 3, 0.05, 0.01, "all others"
PLAIN_NAMES = {"gemm": "matrix products", "concat": "concatenations"}


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    control, test = traces_of(store, entries)
    is_alone, count = len(entries) == 1, PERS[options["per"]]
    bases = (control.known(count) or 1.0, test.known(count) or 1.0) if count else (1.0, 1.0)
    counts = {f"us_a_{n}": (control.known(f"{n}s"), test.known(f"{n}s")) for n in ("token", "sample")}
    rows: list[dict[str, Any]] = []
    for side, family in dict.fromkeys([*control.families, *test.families]):
        if side in {control.work_side, test.work_side, "call"}:
            left, right = (trace.families.get((side, family), NOTHING) for trace in (control, test))
            by_calls, by_each = split_us(left, right, bases)
            row = {"side": side, "family": family, **pair_row(left, right, counts), "us_difference": by_calls + by_each}
            row |= {"us_control": left.us / bases[0], "us_test": right.us / bases[1]}
            row |= {
                "share_control": quotient(left.us, control.work().us),
                "share_test": quotient(right.us, test.work().us),
            }
            rows.append(row | {"us_by_calls": by_calls, "us_by_each": by_each})
    rows.sort(key=lambda row: (-abs(row["difference_us"]), row["side"], row["family"]))
    work, calls = ([row for row in rows if (row["side"] == "call") == is_call] for is_call in (False, True))
    shown = ["family", *(["side"] if calls or control.work_side != test.work_side else [])]
    shown += ["us_control", "us_test", "us_difference", "calls_control", "calls_test", "share_control", "share_test"]
    if options["columns"]:
        more = [f"{name}_{side}" for name in ("total_us", "mean_us") for side in (*SIDES, "speed")]
        shown += ["us_by_calls", "us_by_each", *more, "calls_ratio"]
    one_side = ("_test", "_ratio", "_speed", "_difference", "_by_calls", "_by_each")
    shown = [name for name in shown if not (is_alone and name.endswith(one_side))]
    table = []
    for row in sorted(rows, key=lambda row: (row["side"] == "call", -max(row["us_control"], row["us_test"]))):
        ends = ["share_control", "share_test"] if row["side"] == "call" else []
        for name, trace in (("control", control), ("test", test)):
            # 0 means none, but not for work of the other side, nor for what a report leaves out.
            if row["side"] not in (trace.work_side, "call") or not (trace.is_whole or row[f"calls_{name}"]):
                ends += [f"_{name}", "_difference"]
        table.append({name: None if name.endswith(tuple(ends)) else row[name] for name in shown})
    reason = incomparable(control, test)
    return {
        "main": rows_table(work, ["side", "family"]),
        "calls": rows_table(calls, ["side", "family"]),
        "table": rows_table(table, shown),
        "steps": rows_table([] if reason else steps(control, test, work, bases), ["step", "start", "end"]),
        "compute": rows_table(compute([control] if is_alone else [control, test], options["compute"])),
        "facts": rows_table([facts(store, trace, count) | {"reason": reason} for trace in (control, test)]),
        "before": rows_table(before_rows((control, test)[: len(entries)])),
        "notes": rows_table([{"note": note} for note in cautions(control, test)], ["note"]),
    }


def before_rows(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """By family, what was done before the first pass, the most first; without what is under 1 % of it."""
    families: dict[str, dict[str, float]] = {}
    for trace, side in zip(traces, SIDES, strict=False):
        for family, us in trace.work_before_us.items():
            families.setdefault(family, {})[f"before_us_{side}"] = us
    ranked = sorted(families.items(), key=lambda item: -max(item[1].values()))
    least = SMALL_BEFORE * sum(sum(of_sides.values()) for of_sides in families.values())
    return [{"family": family, **of_sides} for family, of_sides in ranked if sum(of_sides.values()) >= least]


def steps(
    control: Trace, test: Trace, work: Sequence[Mapping[str, Any]], bases: tuple[float, float]
) -> list[dict[str, Any]]:
    """Bars from the control's time to the test's that end where the next begins; of a trace alone its families."""

    def bar(step: str, move: str, start: float, end: float, change: str) -> dict[str, Any]:
        return {"step": step, "move": move, "start": start / 1000, "end": end / 1000, "change": change}

    if control.entry.id == test.entry.id:
        by_time = sorted(((row["us_control"], row["family"]) for row in work), key=lambda pair: -pair[0])
        return [bar(family, "time", 0, us, microseconds(us)) for us, family in by_time]
    by_change = sorted(work, key=lambda row: -abs(row["us_difference"]))
    shown = by_change if len(by_change) <= MOST_STEPS + 1 else by_change[:MOST_STEPS]
    parts = [(row["family"], row["us_by_calls"], row["us_by_each"]) for row in shown]
    if rest := by_change[len(shown) :]:
        parts.append((REST, sum(r["us_by_calls"] for r in rest), sum(r["us_by_each"] for r in rest)))
    first, last = control.work().us / bases[0], test.work().us / bases[1]
    bars, at = [bar(control.name, "all work", 0, first, microseconds(first))], first
    for family, by_calls, by_each in parts:
        for change, moves in ((by_calls, ("fewer calls", "more calls")), (by_each, ("faster calls", "slower calls"))):
            if change:
                move = moves[change > 0]
                bars.append(bar(f"{family}, {move}", move, at, at + change, signed_microseconds(change)))
            at += change
    return [*bars, bar(test.name, "all work", 0, last, microseconds(last))]


def compute(traces: Sequence[Trace], of: str) -> list[dict[str, Any]]:
    """Shares by part, which add up to one; none of a report, which names some operations only."""
    rows = []
    for trace in traces:
        real, span = trace.work(*COMPUTE).us, trace.span_us
        is_span = of == "of the span" and span is not None and real <= span
        whole = (span or 0.0) if is_span else trace.work().us
        if not trace.is_whole or whole <= 0:
            continue
        parts = {name: trace.work(name).us / whole for name in COMPUTE}
        parts["the rest of the span" if is_span else "all other work"] = max(0.0, 1 - sum(parts.values()))
        rows += [{"name": trace.name, "part": part, "share": share} for part, share in parts.items()]
    return rows


def facts(store: Store, trace: Trace, count: str) -> dict[str, Any]:
    """What the sentences say of a trace besides its families."""
    runs = {entry.id: entry.row for entry in store.listing().entries}
    run, base = runs.get(str(trace.entry.row.get("run_id")), {}), trace.known(count) if count else 1.0
    span, tokens = trace.span_us, trace.known("tokens")
    before = trace.work_before_us
    here = quotient(tokens, trace.known("samples"))
    legal = LEGAL_ROWS.get((str(run.get("lp")), str(run.get("tokenizer"))))
    return {
        "name": trace.name,
        "work_side": trace.work_side,
        "base": base,
        "work_us": quotient(trace.work().us, base),
        "span_us": quotient(span, base),
        "before_us": sum(before.values()),
        "before_family": next(iter(before), ""),
        "before_most_us": max(before.values(), default=0.0),
        "first_us": trace.first_us,
        "lp": run.get("lp"),
        "forced": quotient(trace.known("forced_tokens"), tokens),
        "tokens_a_sample": quotient(run.get("tokens"), run.get("samples")) if here is None else here,
        "us_a_token": quotient(span, tokens),
        "device": trace.entry.row.get("device") or "a CPU",
        "model": sized(model_name(run)) if model_name(run) else "",
        "vocabulary": run.get("vocab_size"),
        "legal": legal if run.get("backend") == "fast" else None,
    }


def answer(tables: Tables, options: Options) -> str:
    control, test = tables["facts"].to_pylist()
    rows, per = tables["table"].to_pylist(), "" if options["per"] == "whole traces" else f" {options['per']}"
    is_alone = "us_test" not in tables["table"].column_names
    models = {f"{fact['model']}, on {fact['device']}": None for fact in (control, test) if fact["model"]}
    notes = [f"Times are of {listed(list(models))}."] if models else []
    notes += before_words([control, test][: 2 - is_alone])
    if control["reason"]:
        return answer_text([control["reason"]], notes)
    if not control["work_us"]:
        return answer_text([f"{control['name']} has no work with a duration."], notes)
    shares: dict[str, float] = {}
    for row in tables["compute"].to_pylist():
        shares[row["name"]] = shares.get(row["name"], 0.0) + row["share"] * (row["part"] in COMPUTE)
    of = listed([f"{percent(share)} {options['compute']} in {name}" for name, share in shares.items()])
    real = [f"Attention and matrix products are {of}."] if shares else []
    if is_alone:
        parts = [f"{row['family']} {percent(row['share_control'])}" for row in rows if row["share_control"]]
        clock = f" in {microseconds(control['span_us'])} by the clock" if control["span_us"] else ""
        lead = f"{control['name']} does {microseconds(control['work_us'])} of work{per}{clock}: {listed(parts[:3])}."
        return answer_text([lead, *real], notes)
    # How much faster, which families make it, and what the LP has to do with it.
    work, name = tables["main"].to_pylist(), test["name"]
    pace = times_words(control["work_us"], test["work_us"], "in work")
    if control["span_us"] and test["span_us"]:
        pace = f"{times_words(control['span_us'], test['span_us'], 'by the clock')}, and {pace}"
    lines = [f"{per.strip().capitalize()}, {name} {pace}." if per else f"{name} {pace}."]
    moved, whole = (sum(change(row["us_difference"]) for row in work) for change in (abs, float))
    named = []
    for row in sorted(work, key=lambda row: -abs(row["us_difference"]))[:MOST_NAMED]:
        calls = quotient(row["calls_test"] / test["base"], row["calls_control"] / control["base"])
        how = f"only in one, {row['calls_control'] or row['calls_test']:,} calls"
        how = f"{times(calls)} the calls" if calls else how
        each = f", each {times_words(row['mean_us_control'], row['mean_us_test'])}" if row["mean_us_ratio"] else ""
        if abs(row["us_difference"]) >= SMALL * moved > 0:
            family = PLAIN_NAMES.get(row["family"], row["family"])
            named.append(f"{family} {signed_microseconds(row['us_difference'])} ({how}{each})")
    if named:
        lines.append(f"Work changes by {signed_microseconds(whole)}{per}, most by {listed(named)}.")
    is_pair = control["lp"] == NO_LP and test["lp"] not in (None, NO_LP) and control["model"] == test["model"]
    if is_pair and test["forced"]:
        cause = f"{test['lp']} forces {percent(test['forced'])} of its tokens, which need no pass of their own"
        if test["legal"] and test["legal"] < test["vocabulary"]:
            cause += f", and computes logits for {test['legal']:,} of {test['vocabulary']:,} tokens of the vocabulary"
        lines.append(f"{cause}.")
    before, after, pace_before, pace_after = (f[n] for n in ("tokens_a_sample", "us_a_token") for f in (control, test))
    if before and after and pace_before and pace_after and abs(after / before - 1) > WINDOW:
        clock = times_words(pace_before * before, pace_after * after, "by the clock")
        lines.append(
            f"{name} writes {number(after)} tokens per sample against {number(before)}: per sample it {clock}."
        )
    return answer_text([*lines, *real], notes)


def before_words(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """``Before the first pass, once and not counted above: none works 113 ms (other 99.3 ms) in 140 ms.``"""
    parts = [
        f"{fact['name']} works {microseconds(fact['before_us'])} ({fact['before_family']} "
        f"{microseconds(fact['before_most_us'])}) in {microseconds(fact['first_us'])}"
        for fact in facts
        if fact["before_us"]
    ]
    return [f"Before the first pass, once and not counted above: {'; '.join(parts)}."] if parts else []


def times_words(control: float, test: float, basis: str = "") -> str:
    """``is 3.77× faster by the clock (4.90 ms to 1.30 ms)``"""
    if not control or not test:
        return f"takes {microseconds(test)} {basis}".rstrip()
    if not basis:
        return speed(test / control)
    return f"is {speed(test / control)} {basis} ({microseconds(control)} to {microseconds(test)})"
