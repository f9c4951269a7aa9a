"""Work per pass by its place in it: the forward pass, the LP, drawing tokens, and what is outside of the passes.

The same work may run in kernels of other names, so two traces are matched by family and by place. Places are the marks
of the engine, to a bin of the timeline (4,096 for the whole trace). Rows under 1 % of all changes are left out of the
table. What is between and after the passes is divided by their number too; what is before the first one, such as making
templates and set-up, is done once and is not here: *Families* has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.figures.words import listed, microseconds, number, signed_microseconds
from engine.profile.traces import OUTSIDE, PHASES, WINDOW, passes_of
from engine.questions.question import Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.store import Store

TITLE = "In which part of a pass?"
OF = Of("trace", least=1, most=2)
PLACES = {
    "forward": "the forward pass itself",
    "prefill": "the pass over the prompts",
    "constraint": "the LP",
    "sample": "drawing tokens",
    "template": "making templates",
    "other": "the rest of the pass",
    OUTSIDE: OUTSIDE,
}
COLUMNS = {
    "where": Column("place", is_pinned=True),
    "control_us": Column("control, per pass", "µs"),
    "test_us": Column("test, per pass", "µs"),
    "difference_us": Column("difference", "µs", "Test less control"),
    "place": Column(is_hidden=True),
}
TABLES = ("table",)
LEAST, LEAST_NAMED, MOST_NAMED = 0.01, 0.1, 2  # of all changes: in the table; in the sentence
BINS = """
SELECT side, family, bin, width_us, busy_us FROM trace_timeline
WHERE side = (SELECT if(bool_or(side = 'device'), 'device', 'host') FROM trace_timeline) AND busy_us > 0
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    both = [placed_us(store, entry) for entry in (entries[0], entries[-1])]
    rows: list[dict[str, Any]] = []
    for phase, family in dict.fromkeys([*both[0], *both[1]]) if all(both) else ():
        control, test = (work.get((phase, family), 0.0) for work in both)
        rows.append(
            {
                "place": phase,
                "where": PLACES[phase],
                "family": family,
                "control_us": control,
                "test_us": test,
                "difference_us": test - control,
            }
        )
    is_alone = len(entries) == 1
    by = "control_us" if is_alone else "difference_us"
    rows.sort(key=lambda row: (-abs(row[by]), row["place"], row["family"]))
    large = [row for row in rows if abs(row[by]) >= LEAST * sum(abs(row[by]) for row in rows)]
    shown = ["where", "family", "control_us"] + ([] if is_alone else ["test_us", "difference_us"])
    names = entry_names(entries)
    facts = [
        {"name": names[e.id], "tokens": e.row.get("tokens"), "passes": e.row.get("forward_passes")} for e in entries
    ]
    return {
        "main": rows_table(rows, ["place", "family", "control_us", "test_us", "difference_us"]),
        "table": rows_table(large, shown).select(shown),
        "facts": rows_table(facts),
    }


def placed_us(store: Store, entry: Entry) -> dict[tuple[str, str], float]:
    """Work per step by place and family; empty where the trace has no marks of steps or no time."""
    bins = store.table(BINS, of=[entry.id])
    is_device = "device" in bins["side"].to_pylist()
    passes = passes_of(store, entry, "gpu_annotation" if is_device else "annotation")
    if not passes.marks or not bins.num_rows:
        return {}
    width = float(bins["width_us"][0].as_py())
    bin_of = bins["bin"].to_numpy()
    span_us = entry.row.get("span_us") or 0.0
    edges = np.arange(max(int(bin_of.max()) + 1, int(np.ceil(span_us / width))) + 1) * width  # [bins + 1]
    edges[-1] = max(span_us, edges[-2] + width / 1e3)
    us = np.where(passes.phase[:, None] == np.arange(len(PHASES)), np.diff(passes.bounds_us)[:, None], 0.0)
    passed = np.vstack([np.zeros(len(PHASES)), np.cumsum(us, axis=0)])  # [pieces + 1, PHASES]
    shares = [np.diff(np.interp(edges, passes.bounds_us, phase_us)) / np.diff(edges) for phase_us in passed.T[:-1]]
    first_us = passes.marks[0]["start_us"]
    after = np.clip((edges[1:] - first_us) / np.diff(edges), 0.0, 1.0)  # [bins], the part in or after the first pass
    of_bins = np.array([*shares, np.clip(1 - sum(shares), 0.0, 1.0)]) * after  # [PHASES, bins], of each bin's time
    families, busy_us = np.array(bins["family"].to_pylist()), bins["busy_us"].to_numpy()
    work_us: dict[tuple[str, str], float] = {}
    for family in dict.fromkeys(families.tolist()):
        of_family = families == family
        times = (of_bins[:, bin_of[of_family]] @ busy_us[of_family] / len(passes.marks)).tolist()
        work_us |= {(phase, family): us for phase, us in zip(PHASES, times, strict=True) if us > 1e-9}  # else rounding
    return work_us


def answer(tables: Tables, options: Options) -> str:
    rows, facts = tables["main"].to_pylist(), tables["facts"].to_pylist()
    if not rows:
        return "Not known: a trace has no marks of passes."
    is_alone = len(facts) == 1
    by, words = ("control_us", microseconds) if is_alone else ("difference_us", signed_microseconds)
    by_where: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_where[row["where"]].append(row)
    sums = {where: sum(row[by] for row in of_where) for where, of_where in by_where.items()}
    least = LEAST_NAMED * sum(map(abs, sums.values()))
    largest = sorted((where for where in sums if abs(sums[where]) >= least), key=lambda where: -abs(sums[where]))
    parts = []
    for where in largest[:MOST_NAMED]:
        first = by_where[where][0]
        parts.append(f"{where} {words(sums[where])} ({first['family']} {words(first[by])})")
    whole = [microseconds(sum(row[f"{side}_us"] for row in rows)) for side in ("control", "test")]
    named = [f"{us} in {fact['name']}" for us, fact in zip(whole, facts, strict=False)]
    return answer_text([f"Work per pass is {listed(named)}: {listed(parts)}."], length_notes(facts))


def length_notes(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    per_pass = [fact["tokens"] / fact["passes"] for fact in facts if fact["tokens"] and fact["passes"]]
    if len(per_pass) < 2 or abs(per_pass[1] / per_pass[0] - 1) <= WINDOW:
        return []
    writes = [f"{number(count)} in {fact['name']}" for count, fact in zip(per_pass, facts, strict=True)]
    return [f"Tokens per pass: {listed(writes)}, so a longer pass may be no longer per token."]
