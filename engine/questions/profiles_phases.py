"""One pass through the model and what goes with it, as the mean of each trace, and whether passes with junk are longer.

Making templates (before the first pass), the pass over the prompts (prefill), over new tokens (forward), the LP
(constraint), and drawing tokens (sample). *Other* is what no mark covers. Times are the host's: where a device works on
its own, a phase is what it took to ask for the work. The set-up before the first pass makes the LP's tables, lays out
the output head, and clears the cache. Without an LP, templates are the prompts alone, and
constraint is the time to add the drawn tokens.

A pass covers all rows of its batch: junk in one row does not mean junk in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.figures.words import listed, microseconds, number, percent
from engine.profile.traces import PHASES, passes_of
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.store import Store

TITLE = "What is a pass made of, and does junk take longer?"
OF = Of("trace", least=1, most=2)
OPTIONS = ()
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


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[dict[str, Any]] = []
    around: list[dict[str, Any]] = []
    states: list[dict[str, Any]] = []
    by_state: list[dict[str, Any]] = []
    names = entry_names(entries)
    for entry in entries:
        passes, name = passes_of(store, entry), names[entry.id]
        if not (count := len(passes.marks)):
            why = "it has no marks of passes: it was not captured here, or by a backend without separate passes"
            around.append({"name": name, "why": why})
            continue
        written = {row["step"]: row for row in store.table(WRITTEN, of=[entry.id]).to_pylist()}
        state = np.array([written[step]["state"] if step in written else "unknown" for step in range(count)])

        def means(chosen: Any, us: Any = passes.us[:count]) -> dict[str, float]:
            return {phase: mean for phase, mean in zip(PHASES, us[chosen].mean(axis=0).tolist(), strict=True) if mean}

        first, last = passes.marks[0], passes.marks[-1]
        before, until = first["start_us"], last["start_us"] + last["dur_us"]
        in_passes, whole = sum(mark["dur_us"] for mark in passes.marks), means(state != "")
        templates = passes.us[:, PHASES.index("template")].sum().item() or None
        around.append(
            {
                "name": name,
                "why": "which tokens of its passes are junk is not known" if (state == "unknown").all() else "",
                "in_passes": in_passes,
                "before": before,
                "between": until - before - in_passes,
                "after": (entry.row.get("span_us") or 0.0) - until,
                "templates": templates,
            }
        )
        rows += [
            {
                "name": name,
                "phase": phase,
                "us": us,
                "ms": us / 1000,
                "share": us / sum(whole.values()),
                "passes": count,
            }
            for phase, us in whole.items()
        ]
        for key, words in STATES.items():
            if (state == key).any():
                split, chosen = means(state == key), np.flatnonzero(state == key)
                us = passes.us[chosen].sum(axis=1)
                example = int(chosen[abs(us - np.median(us)).argmin()])
                row = {"name": name, "state": words, "passes": len(chosen), "of": count, "mean_us": sum(split.values())}
                states.append(row | {"example": example, "wrote": written[example]["wrote"]})
                by_state += [row | {"phase": phase, "ms": us / 1000} for phase, us in split.items()]
    has_damage = any(row["state"] != STATES["normal"] for row in states)
    columns = ["name", "why", "in_passes", "before", "between", "after", "templates"]
    return {
        "main": rows_table(rows, ["name", "phase", "us", "ms"]),
        "around": rows_table(around, columns),
        "states": rows_table(states, ["name", "state", "passes", "of", "mean_us"]),
        "by_state": rows_table(by_state if has_damage else [], ["name", "state", "phase", "ms"]),
    }


def answer(tables: Tables, options: Options) -> str:
    rows, states, lines, notes = tables["main"].to_pylist(), tables["states"].to_pylist(), [], []
    for row in tables["around"].to_pylist():
        name, of_trace = row["name"], [phase for phase in rows if phase["name"] == row["name"]]
        notes += [f"{name}: {row['why']}."] if row["why"] else []
        if not of_trace:
            continue
        most = max(of_trace, key=lambda phase: phase["us"])
        of = {state["state"]: state for state in states if state["name"] == name}
        normal, junk, cut = (of.get(words) for words in STATES.values())
        cuts = f", {cut['passes']:,} cut a number" if cut else ""
        wrote = f" None of its {of_trace[0]['passes']:,} passes wrote junk{cuts}." if normal or cut else ""
        if junk:
            without = f", {microseconds(normal['mean_us'])} without" if normal else ""
            wrote = (
                f" Of its {junk['of']:,} passes {junk['passes']:,} wrote junk: {microseconds(junk['mean_us'])} on "
                f"average{without}."
            )
        lines.append(
            f"{name}: a pass takes {microseconds(sum(phase['us'] for phase in of_trace))} on average, "
            f"{percent(most['share'])} of it {most['phase']}.{wrote}"
        )
        parts = [row[part] for part in ("in_passes", "before", "between", "after")]
        if min(parts) >= -ROUNDING_US:  # else passes overlap
            texts = [f"{number(max(0.0, part) / 1000)} ms" for part in parts]
            templates = row["templates"]
            set_up = "" if templates is None else f" (templates {number(templates / 1000)} ms, the rest set-up)"
            phases = [f"{texts[0]} in passes", f"{texts[1]} before the first{set_up}", f"{texts[2]} between them"]
            phases += [f"{texts[3]} after the last"] if parts[3] >= LEAST_AFTER * sum(parts) else []
            notes.append(f"{name} takes {number(sum(parts) / 1000)} ms by the clock: {listed(phases)}.")
    return answer_text(lines or ["No trace marks where its passes begin."], notes)
