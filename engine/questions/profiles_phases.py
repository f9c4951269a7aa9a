"""One pass through the model and what goes with it, as the mean of each trace, and whether passes with junk are longer.

Making templates (before the first pass), the pass over the prompts (prefill), over new tokens (forward), the LP
(constraint), and drawing tokens (sample). *Other* is what no mark covers. Times are the host's: where a device works on
its own, a phase is what it took to ask for the work. The set-up before the first pass makes the LP's tables, lays out
the output head, and clears the cache. Without an LP, templates are the prompts alone, and
constraint is the time to add the drawn tokens.

A pass covers all rows of its batch: junk in one row does not mean junk in the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.figures.words import listed, microseconds, number, percent
from engine.profile.traces import PHASES, Passes, passes_of
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.store import Store

TITLE = "What is a pass made of, and does junk take longer?"
OF = Of("trace", least=1, most=2)
STATES = {"normal": "without junk", "junk": "with junk", "cut": "with a cut"}
COLUMNS = {
    "name": Column("trace"),
    "us": Column("time per pass", "µs", "Mean over all passes"),
    "ms": Column("mean per pass", "ms"),
    "share": Column("share of the pass", "%"),
    "state": Column("passes"),
    "passes": Column("number"),
    "mean_us": Column("mean time", "µs"),
    "example": Column("such as pass", help="The one nearest to the median of its kind, counted from 0"),
    "wrote": Column("which wrote", help="A token for each row of its batch; the first pass the forced ones too"),
}
CHARTS = (
    Chart("bars", "ms", "name", colour="phase", hover=("name", "phase", "ms", "share", "passes")),
    Chart("bars", "ms", "state", "by_state", colour="phase", split="name", hover=("state", "phase", "ms", "passes")),
)
TABLES = ("states",)
WRITTEN = """
SELECT step, CASE WHEN bool_or(mark = 'junk') THEN 'junk' WHEN bool_or(mark = 'cut') THEN 'cut'
                  WHEN bool_or(mark IS NULL) THEN 'unknown' ELSE 'normal' END AS state,
       string_agg(piece, ' ' ORDER BY sample_id, pos) AS wrote
FROM trace_steps GROUP BY step
"""
LEAST_AFTER = 0.001  # of a trace: most end with their last pass
ROUNDING_US = 1.0
Row = dict[str, Any]
Real = npt.NDArray[np.float64]


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[Row] = []
    around: list[Row] = []
    states: list[Row] = []
    by_state: list[Row] = []
    names = entry_names(entries)
    for entry in entries:
        passes, name = passes_of(store, entry), names[entry.id]
        count = len(passes.marks)
        if not count:
            why = "it has no marks of passes: it was not captured here, or by a backend without separate passes"
            around.append({"name": name, "why": why})
            continue
        written = {row["step"]: row for row in store.table(WRITTEN, of=[entry.id]).to_pylist()}
        state = np.array([written[step]["state"] if step in written else "unknown" for step in range(count)])
        us = passes.us[:count]  # [passes, PHASES]
        why = "which tokens of its passes are junk is not known" if (state == "unknown").all() else ""
        around.append({"name": name, "why": why, **around_passes(entry, passes)})
        means = means_of(us)
        for phase, mean in means.items():
            share = mean / sum(means.values())
            rows.append({"name": name, "phase": phase, "us": mean, "ms": mean / 1000, "share": share, "passes": count})
        for key, words in STATES.items():
            chosen = np.flatnonzero(state == key)
            if not len(chosen):
                continue
            means = means_of(us[chosen])
            length = us[chosen].sum(axis=1)
            example = int(chosen[abs(length - np.median(length)).argmin()])
            row = {"name": name, "state": words, "passes": len(chosen), "of": count, "mean_us": sum(means.values())}
            states.append(row | {"example": example, "wrote": written[example]["wrote"]})
            by_state += [row | {"phase": phase, "ms": mean / 1000} for phase, mean in means.items()]
    has_damage = any(row["state"] != STATES["normal"] for row in states)
    columns = ["name", "why", "in_passes", "before", "between", "after", "templates"]
    return {
        "main": rows_table(rows, ["name", "phase", "us", "ms"]),
        "around": rows_table(around, columns),
        "states": rows_table(states, ["name", "state", "passes", "of", "mean_us"]),
        "by_state": rows_table(by_state if has_damage else [], ["name", "state", "phase", "ms"]),
    }


def means_of(us: Real) -> dict[str, float]:
    """[passes, PHASES] to a mean for each phase that takes time."""
    return {phase: mean for phase, mean in zip(PHASES, us.mean(axis=0).tolist(), strict=True) if mean}


def around_passes(entry: Entry, passes: Passes) -> Row:
    """A trace's time by the clock, in and around its passes, which add up to it."""
    first, last = passes.marks[0], passes.marks[-1]
    before, until = first["start_us"], last["start_us"] + last["dur_us"]
    in_passes = sum(mark["dur_us"] for mark in passes.marks)
    return {
        "in_passes": in_passes,
        "before": before,
        "between": until - before - in_passes,
        "after": (entry.row.get("span_us") or 0.0) - until,
        "templates": passes.us[:, PHASES.index("template")].sum().item() or None,
    }


def answer(tables: Tables, options: Options) -> str:
    phases, states = tables["main"].to_pylist(), tables["states"].to_pylist()
    lines, notes = [], []
    for row in tables["around"].to_pylist():
        name = row["name"]
        notes += [f"{name}: {row['why']}."] if row["why"] else []
        of_trace = [phase for phase in phases if phase["name"] == name]
        if not of_trace:
            continue
        most = max(of_trace, key=lambda phase: phase["us"])
        mean = microseconds(sum(phase["us"] for phase in of_trace))
        wrote = junk_words({state["state"]: state for state in states if state["name"] == name})
        lines.append(f"{name}: a pass takes {mean} on average, {percent(most['share'])} of it {most['phase']}.{wrote}")
        notes += clock_words(row)
    return answer_text(lines or ["No trace marks where its passes begin."], notes)


def junk_words(states: Mapping[str, Row]) -> str:
    """By state of its passes; nothing where no state is known."""
    normal, junk, cut = (states.get(words) for words in STATES.values())
    if junk:
        without = f", {microseconds(normal['mean_us'])} without" if normal else ""
        wrote = f"{junk['passes']:,} wrote junk: {microseconds(junk['mean_us'])} on average{without}"
        return f" Of its {junk['of']:,} passes {wrote}."
    known = normal or cut
    if not known:
        return ""
    cuts = f", {cut['passes']:,} cut a number" if cut else ""
    return f" None of its {known['of']:,} passes wrote junk{cuts}."


def clock_words(row: Row) -> list[str]:
    parts = [row[part] for part in ("in_passes", "before", "between", "after")]
    if min(parts) < -ROUNDING_US:  # passes overlap
        return []
    texts = [f"{number(max(0.0, part) / 1000)} ms" for part in parts]
    templates = row["templates"]
    set_up = "" if templates is None else f" (templates {number(templates / 1000)} ms, the rest set-up)"
    phases = [f"{texts[0]} in passes", f"{texts[1]} before the first{set_up}", f"{texts[2]} between them"]
    phases += [f"{texts[3]} after the last"] if parts[3] >= LEAST_AFTER * sum(parts) else []
    return [f"{row['name']} takes {number(sum(parts) / 1000)} ms by the clock: {listed(phases)}."]
