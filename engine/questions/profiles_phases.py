"""One pass through the model and what goes with it, as the mean of each trace, and what lies around the passes.

Making templates (before the first pass), the pass over the prompts (prefill), over new tokens (forward), the LP
(constraint), and drawing tokens (sample). *Other* is what no mark covers. Times are the host's: where a device works on
its own, a phase is what it took to ask for the work. The set-up before the first pass makes the LP's tables, lays out
the output head, and clears the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.figures.words import listed, microseconds, number, percent
from engine.profile.phases import PHASES, mean_us, steps_of
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.store import Store

TITLE = "What is a pass made of?"
OF = Of("trace", least=1, most=2)
OPTIONS = ()
COLUMNS = {
    "name": Column("trace"),
    "phase": Column("phase"),
    "us": Column("time per pass", "µs", "Mean over all passes"),
    "ms": Column("mean per pass", "ms"),
    "share": Column("share of the pass", "%"),
    "passes": Column("passes"),
}
CHARTS = (Chart("bars", "ms", "name", colour="phase", hover=("name", "phase", "ms", "share", "passes")),)
TABLES = ()
LEAST_AFTER = 0.001  # of a trace: most end with their last pass
ROUNDING_US = 1.0


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[dict[str, Any]] = []
    around: list[dict[str, Any]] = []
    runs = {entry.id: entry.row for entry in store.found().entries}
    names = entry_names(entries)
    for entry in entries:
        steps, template_us, why = steps_of(store, entry)
        around.append({"name": names[entry.id], "why": why if not steps else ""})
        if not steps:
            continue
        means, last = mean_us(steps), steps[-1]
        whole = sum(means.values())
        in_passes, before = sum(step.dur_us for step in steps), steps[0].start_us
        until = last.start_us + last.dur_us
        parts = {"in_passes": in_passes, "before": before, "between": until - before - in_passes}
        parts["after"] = (entry.row.get("span_us") or 0.0) - until
        has_lp = (runs.get(str(entry.row.get("run_id"))) or {}).get("lp") != "none"
        has_marks = template_us is not None or "constraint" in means
        around[-1] |= {**parts, "templates": template_us, "is_without_lp": has_marks and not has_lp}
        for phase in PHASES:
            if phase in means:
                row = {"name": names[entry.id], "phase": phase, "us": means[phase], "ms": means[phase] / 1000}
                rows.append(row | {"share": means[phase] / whole if whole else None, "passes": len(steps)})
    columns = ["name", "why", "in_passes", "before", "between", "after", "templates", "is_without_lp"]
    return {"main": rows_table(rows, ["name", "phase", "us", "ms"]), "around": rows_table(around, columns)}


def answer(tables: Tables, options: Options) -> str:
    rows, lines, notes = tables["main"].to_pylist(), [], []
    for row in tables["around"].to_pylist():
        mine = [one for one in rows if one["name"] == row["name"]]
        if not mine:
            notes.append(f"{row['name']}: {row['why']}.")
            continue
        most = max(mine, key=lambda one: one["us"])
        lines.append(f"{row['name']}: a pass takes {microseconds(sum(one['us'] for one in mine))} on average, "
                     f"{percent(most['share'])} of it {most['phase']}.")  # fmt: skip
        parts = [row[name] for name in ("in_passes", "before", "between", "after")]
        if min(parts) >= -ROUNDING_US:  # else passes overlap
            texts = [f"{number(max(0.0, part) / 1000)} ms" for part in parts]
            templates = row["templates"]
            set_up = "" if templates is None else f" (templates {number(templates / 1000)} ms, the rest set-up)"
            told = [f"{texts[0]} in passes", f"{texts[1]} before the first{set_up}", f"{texts[2]} between them"]
            told += [f"{texts[3]} after the last"] if parts[3] >= LEAST_AFTER * sum(parts) else []
            notes.append(f"{row['name']} takes {number(sum(parts) / 1000)} ms by the clock: {listed(told)}.")
        if row["is_without_lp"]:
            notes.append(f"{row['name']} has no LP: constraint is the time to add the drawn tokens, and templates are "
                         "the prompts alone.")  # fmt: skip
    return answer_text(lines or ["No trace marks where its passes begin."], notes)
