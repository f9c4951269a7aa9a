"""One pass without junk and one with junk or a cut number, each the one nearest to the median of its kind.

A pass covers all rows of its batch: junk in one row does not mean junk in the others. Two passes are only an
example; the sentence gives the means over all passes of each kind. One of each does not tell whether junk is slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.figures.words import microseconds
from engine.profile.phases import PHASES, example_of, mean_us, steps_of
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, entry_names
from engine.store.store import Store

TITLE = "Do passes that write junk take longer?"
OF = Of("trace", least=1, most=2)
OPTIONS = ()
STATES = {"normal": "without junk", "junk": "with junk", "cut": "with a cut"}
COLUMNS = {
    "name": Column("trace"),
    "state": Column("passes"),
    "passes": Column("number"),
    "of": Column("of"),
    "mean_us": Column("mean time", "µs"),
    "pass": Column("pass"),
    "ms": Column("one pass", "ms"),
    "us": Column("time", "µs"),
    "wrote": Column("wrote"),
}
CHARTS = (Chart("bars", "ms", "pass", "examples", colour="phase", hover=("pass", "phase", "ms", "wrote")),)
TABLES = ("main",)
MOST_PIECES = 6


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[dict[str, Any]] = []
    examples: list[dict[str, Any]] = []
    gaps, names = [], entry_names(entries)
    for entry in entries:
        steps, _, why = steps_of(store, entry)
        gaps += [{"name": names[entry.id], "why": why}] if why else []
        for state, words in STATES.items():
            chosen = [step for step in steps if step.state == state]
            if not chosen:
                continue
            row = {"name": names[entry.id], "state": words, "passes": len(chosen), "of": len(steps)}
            rows.append(row | {"mean_us": sum(mean_us(chosen).values())})
            step = example_of(chosen)
            tokens = sorted((token for token in step.tokens if token[0]), key=lambda token: not token[1])
            wrote = " ".join(f"“{piece}”{f' ({mark})' if mark else ''}" for piece, mark in tokens[:MOST_PIECES])
            head = {"pass": f"{names[entry.id]}, pass {step.step + 1:,}, {words}", "wrote": wrote}
            examples += [head | {"phase": phase, "us": step.phases_us[phase], "ms": step.phases_us[phase] / 1000}
                         for phase in PHASES if phase in step.phases_us]  # fmt: skip
    has_damage = any(row["state"] != STATES["normal"] for row in rows)
    return {
        "main": rows_table(rows, ["name", "state", "passes", "of", "mean_us"]),
        "examples": rows_table(examples if has_damage else [], ["pass", "phase", "us", "ms"]),
        "gaps": rows_table(gaps, ["name", "why"]),
    }


def answer(tables: Tables, options: Options) -> str:
    by_trace: dict[str, dict[str, dict[str, Any]]] = {}
    for row in tables["main"].to_pylist():
        by_trace.setdefault(row["name"], {})[row["state"]] = row
    lines = []
    for name, states in by_trace.items():
        normal, junk, cut = (states.get(words) for words in STATES.values())
        of = f"{name}: of {next(iter(states.values()))['of']:,} passes"
        cuts = f", {cut['passes']:,} cut a number" if cut else ""
        if junk is None:
            lines.append(f"{of} none wrote junk{cuts}.")
            continue
        without = f", {microseconds(normal['mean_us'])} without" if normal else ""
        lines.append(f"{of} {junk['passes']:,} wrote junk: {microseconds(junk['mean_us'])} on average{without}.")
    notes = [f"{row['name']}: {row['why']}." for row in tables["gaps"].to_pylist()]
    return answer_text(lines or ["Which passes wrote junk is not known."], notes)
