"""Work by families of operations, and how a control's time becomes a test's: by more calls and by slower ones.

A family's difference is split in two parts that add up: more or fewer calls, each at the mean of both times, and slower
or faster calls; a family that only one of the two has is all calls. Where the parts cancel for the most part, calls are
of other sizes, as another batch makes them, and are one bar. It shows how much, not why, and telling noise apart
takes more than one trace of each. The reports call attention and products of matrices (gemm) real compute and all else
overhead; norms, copies and elementwise work of the same model are part of that rest, and over the span also the time in
which nothing runs. Families are rules over names, in `data/trace_families.toml`; *other* is what none matches. To add
your own, name a file of such rules in `DRIFTSCOPE_TRACE_FAMILIES`, and add the trace again. Work before the first pass
is done once: it stands apart, and is not divided. A wrapper, as `aten::linear` is of `aten::addmm`, is no call. A
*pinned* family, by a click on its bar or from the list, stays first here, in the table and in *Timeline*.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    families_of,
    fold_small,
    incomparable,
    is_of_other_sizes,
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
    Option("small", False, "Small bars", help="Each bar under 5 % of all bars, in place of one with their sum"),
    Option("pinned", "", "Pinned", families_of, is_open=True),
    Option("columns", False, "All columns", help="Also times per call, ratios, and both parts of each difference"),
)
Row = dict[str, Any]
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
    "end": Column("work", "ms"),
    **dict.fromkeys(("start", "change"), Column("", "ms")),
    "share": Column("share", "%"),
}
CHARTS = (
    Chart("bars", "end", "step", "steps", colour="move", low="start", text="change", hover=("step", "change"),
          picks="option:pinned:family"),
    Chart("bars", "share", "name", "compute", colour="part", hover=("name", "part", "share")),
)  # fmt: skip
TABLES = ("table", "before")
MOST_NAMED, SMALL, SMALL_BEFORE = 3, 0.05, 0.01
RESIZED = "calls of other sizes"
PLAIN_NAMES = {
    "gemm": "matrix products",
    "concat": "concatenations",
    "fused": "fused kernels",
    "kv_write": "KV cache writes",
}


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    control, test = traces_of(store, entries)
    traces = (control, test)[: len(entries)]
    count = PERS[options["per"]]
    bases = (control.known(count) or 1.0, test.known(count) or 1.0)  # of whole traces nothing is known under ""
    sides = {control.work_side, test.work_side, "call"}
    keys = [key for key in dict.fromkeys([*control.families, *test.families]) if key[0] in sides]
    rows = [family_row(control, test, key, bases) for key in keys]
    rows.sort(key=lambda row: (-abs(row["difference_us"]), row["side"], row["family"]))
    work = [row for row in rows if row["side"] != "call"]
    calls = [row for row in rows if row["side"] == "call"]
    has_sides = bool(calls) or control.work_side != test.work_side
    shown = shown_columns(is_alone=len(entries) == 1, has_sides=has_sides, has_all=options["columns"])
    rows.sort(key=lambda row: (row["side"] == "call", -max(row["us_control"], row["us_test"])))
    rows.sort(key=lambda row: row["family"] != options["pinned"])
    reason = incomparable(control, test)
    bars = [] if reason else steps(control, test, work, bases, options)
    return {
        "main": rows_table(work, ["side", "family"]),
        "calls": rows_table(calls, ["side", "family"]),
        "table": rows_table([shown_row(row, shown, (control, test)) for row in rows], shown),
        "steps": rows_table(bars, ["step", "start", "end"]),
        "compute": rows_table(compute(traces, options["compute"])),
        "facts": rows_table([facts(store, trace, count) | {"reason": reason} for trace in (control, test)]),
        "before": rows_table(before_rows(traces)),
        "notes": rows_table([{"note": note} for note in cautions(control, test)], ["note"]),
    }


def family_row(control: Trace, test: Trace, key: tuple[str, str], bases: tuple[float, float]) -> Row:
    """Both traces' calls and time, and the parts of the difference; ``us_`` are divided as the reader chose."""
    left, right = control.families.get(key, NOTHING), test.families.get(key, NOTHING)
    by_calls, by_each = split_us(left, right, bases)
    counts = {f"us_a_{name}": (control.known(f"{name}s"), test.known(f"{name}s")) for name in ("token", "sample")}
    return {
        "side": key[0],
        "family": key[1],
        **pair_row(left, right, counts),
        "us_difference": by_calls + by_each,
        "us_control": left.us / bases[0],
        "us_test": right.us / bases[1],
        "share_control": quotient(left.us, control.work().us),
        "share_test": quotient(right.us, test.work().us),
        "us_by_calls": by_calls,
        "us_by_each": by_each,
        "is_resized": is_of_other_sizes(control, test, by_calls, by_each),
    }


def shown_columns(*, is_alone: bool, has_sides: bool, has_all: bool) -> list[str]:
    columns = ["family", *(["side"] if has_sides else []), "us_control", "us_test", "us_difference"]
    columns += ["calls_control", "calls_test", "share_control", "share_test"]
    if has_all:
        columns += ["us_by_calls", "us_by_each", "total_us_control", "total_us_test", "total_us_speed"]
        columns += ["mean_us_control", "mean_us_test", "mean_us_speed", "calls_ratio"]
    of_two = ("_test", "_ratio", "_speed", "_difference", "_by_calls", "_by_each")
    return [name for name in columns if not (is_alone and name.endswith(of_two))]


def shown_row(row: Row, shown: Sequence[str], traces: tuple[Trace, Trace]) -> Row:
    """0 means none; work of the other side is not known, nor what a report leaves out, and calls are no work."""
    unknown = ["share_control", "share_test"] if row["side"] == "call" else []
    for side, trace in zip(SIDES, traces, strict=True):
        is_of_side = row["side"] in (trace.work_side, "call")
        if not is_of_side or not (trace.is_whole or row[f"calls_{side}"]):
            unknown += [f"_{side}", "_difference"]
    return {name: None if name.endswith(tuple(unknown)) else row[name] for name in shown}


def before_rows(traces: Sequence[Trace]) -> list[Row]:
    """By family, what was done before the first pass, the most first; without what is under 1 % of it."""
    families: dict[str, dict[str, float]] = {}
    for trace, side in zip(traces, SIDES, strict=False):
        for family, us in trace.work_before_us.items():
            families.setdefault(family, {})[f"before_us_{side}"] = us
    ranked = sorted(families.items(), key=lambda item: -max(item[1].values()))
    least = SMALL_BEFORE * sum(sum(of_sides.values()) for of_sides in families.values())
    return [{"family": family, **of_sides} for family, of_sides in ranked if sum(of_sides.values()) >= least]


def steps(control: Trace, test: Trace, work: Sequence[Row], bases: tuple[float, float], options: Options) -> list[Row]:
    """Bars from the control's time to the test's that end where the next begins; of a trace alone its families."""
    is_alone = control.entry.id == test.entry.id
    parts: list[Row] = []
    for row in sorted(work, key=lambda row: -abs(row["us_difference"] or row["us_control"])):
        part = {"family": row["family"], "is_pinned": row["family"] == options["pinned"]}
        for move, us in ({"time": row["us_control"]} if is_alone else moves_of(row)).items():
            step = row["family"] if is_alone else f"{row['family']}, {move}"
            parts += [part | {"step": step, "move": move, "us": us}] if us else []
    parts = [dict(part) for part in fold_small(parts, "us", "step", options["small"])]
    if not is_alone:
        first, last = (
            {"step": trace.name, "move": "all work", "us": trace.work().us / base}
            for trace, base in zip((control, test), bases, strict=True)
        )
        parts = [first, *parts, last]
    bars, at_us = [], 0.0
    for part in parts:
        start_us = 0.0 if part["move"] in ("all work", "time") or is_alone else at_us
        at_us = start_us + part["us"]
        bar = {"start": start_us / 1000, "end": at_us / 1000, "change": part["us"] / 1000}
        bars.append({"step": part["step"], "move": part["move"], "family": part.get("family"), **bar})
    return bars


def moves_of(row: Row) -> dict[str, float]:
    """A family's difference in its parts, or as one where they cancel."""
    if row["is_resized"]:
        return {RESIZED: row["us_difference"]}
    return {
        "more calls" if row["us_by_calls"] > 0 else "fewer calls": row["us_by_calls"],
        "slower calls" if row["us_by_each"] > 0 else "faster calls": row["us_by_each"],
    }


def compute(traces: Sequence[Trace], of: str) -> list[Row]:
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


def facts(store: Store, trace: Trace, count: str) -> Row:
    """What the sentences say of a trace besides its families."""
    runs = {entry.id: entry.row for entry in store.listing().entries}
    run = runs.get(str(trace.entry.row.get("run_id")), {})
    base = trace.known(count) if count else 1.0
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
    is_alone = "us_test" not in tables["table"].column_names
    per = "" if options["per"] == "whole traces" else f" {options['per']}"
    models = {f"{fact['model']}, on {fact['device']}": None for fact in (control, test) if fact["model"]}
    notes = [f"Times are of {listed(list(models))}."] if models else []
    notes += before_words([control, test][: 2 - is_alone])
    if control["reason"]:
        return answer_text([control["reason"]], notes)
    if not control["work_us"]:
        return answer_text([f"{control['name']} has no work with a duration."], notes)
    if is_alone:
        lines = [work_words(control, per, tables["table"].to_pylist())]
    else:
        lines = [pace_words(control, test, per), change_words(control, test, per, tables["main"].to_pylist())]
        lines += [cause_words(control, test), length_words(control, test)]
    return answer_text([*lines, compute_words(tables["compute"].to_pylist(), options["compute"])], notes)


def work_words(fact: Row, per: str, rows: Sequence[Row]) -> str:
    """Of a trace alone."""
    parts = [f"{row['family']} {percent(row['share_control'])}" for row in rows if row["share_control"]]
    clock = f" in {microseconds(fact['span_us'])} by the clock" if fact["span_us"] else ""
    return f"{fact['name']} does {microseconds(fact['work_us'])} of work{per}{clock}: {listed(parts[:MOST_NAMED])}."


def pace_words(control: Row, test: Row, per: str) -> str:
    pace = times_words(control["work_us"], test["work_us"], "in work")
    if control["span_us"] and test["span_us"]:
        pace = f"{times_words(control['span_us'], test['span_us'], 'by the clock')}, and {pace}"
    return f"{per.strip().capitalize()}, {test['name']} {pace}." if per else f"{test['name']} {pace}."


def change_words(control: Row, test: Row, per: str, work: Sequence[Row]) -> str:
    """The families that make most of the difference; empty where none does."""
    moved = sum(abs(row["us_difference"]) for row in work)
    named = []
    for row in sorted(work, key=lambda row: -abs(row["us_difference"]))[:MOST_NAMED]:
        if not abs(row["us_difference"]) >= SMALL * moved > 0:
            continue
        calls = quotient(row["calls_test"] / test["base"], row["calls_control"] / control["base"])
        how = f"{times(calls)} the calls"
        if not calls:
            how = f"only in one, {row['calls_control'] or row['calls_test']:,} calls"
        if row["is_resized"]:
            parts = (
                f"{signed_microseconds(row['us_by_calls'])} by calls, {signed_microseconds(row['us_by_each'])} by each"
            )
            how += f", of other sizes: {parts}"
        elif row["mean_us_ratio"]:
            how += f", each {times_words(row['mean_us_control'], row['mean_us_test'])}"
        family = PLAIN_NAMES.get(row["family"], row["family"])
        named.append(f"{family} {signed_microseconds(row['us_difference'])} ({how})")
    whole = signed_microseconds(sum(row["us_difference"] for row in work))
    return f"Work changes by {whole}{per}, most by {listed(named)}." if named else ""


def cause_words(control: Row, test: Row) -> str:
    """What the test's LP has to do with it; empty where the control is no run of the same model without one."""
    is_pair = control["lp"] == NO_LP and test["lp"] not in (None, NO_LP) and control["model"] == test["model"]
    if not is_pair or not test["forced"]:
        return ""
    cause = f"{test['lp']} forces {percent(test['forced'])} of its tokens, which need no pass of their own"
    if test["legal"] and test["legal"] < test["vocabulary"]:
        cause += f", and computes logits for {test['legal']:,} of {test['vocabulary']:,} tokens of the vocabulary"
    return f"{cause}."


def length_words(control: Row, test: Row) -> str:
    """How much a sample takes, where samples of the two differ in length."""
    before, after = control["tokens_a_sample"], test["tokens_a_sample"]
    pace_before, pace_after = control["us_a_token"], test["us_a_token"]
    if not all((before, after, pace_before, pace_after)) or abs(after / before - 1) <= WINDOW:
        return ""
    clock = times_words(pace_before * before, pace_after * after, "by the clock")
    writes = f"{test['name']} writes {number(after)} tokens per sample against {number(before)}"
    return f"{writes}: per sample it {clock}."


def compute_words(rows: Sequence[Row], of: str) -> str:
    shares: dict[str, float] = {}
    for row in rows:
        shares[row["name"]] = shares.get(row["name"], 0.0) + row["share"] * (row["part"] in COMPUTE)
    named = [f"{percent(share)} {of} in {name}" for name, share in shares.items()]
    return f"Attention and matrix products are {listed(named)}." if named else ""


def before_words(facts: Sequence[Row]) -> list[str]:
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
