"""What a model believes of each number of a stored text, given the text before it: x, y given x, z given both.

Over what `exact` allows, at temperature 1; no sampling filter counts. Each axis is conditional on the numbers before it
as they were written, so a narrow z does not mean that the atom's place was certain. Cells are uniform inside; figures
are of the 99 % of the mass or more that were opened. Struck: the share of it in cells where `shaped` finds no right
place, given the atoms before as written. A width is checked by `ask drift_coverage MODEL`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.figures.words import angstrom, counted, fixed, percent
from engine.inspection.number_beliefs import NumberBelief
from engine.inspection.sample import Inspected, inspect_sample
from engine.jobs.number_beliefs import BeliefRequest, coverage_digest, kept_coverage, request_of
from engine.lp.numbers import AXES
from engine.models.registry import ModelEntry
from engine.questions.drift_coverage import width_words, widths
from engine.questions.question import Column, NeedsWork, Of, Option, Options, SampleOf, Tables, rows_table
from engine.store.store import Store

TITLE = "What does the model believe of each number?"
OF = Of("sample")
CELLS = {"0.1": 1, "0.01": 2, "0.001": 3}
"""Widths of the cells of decimals, in angstrom, and the decimals that they have."""
OPTIONS = (
    Option("belief_cell", "0.01", "Cell", {width: f"{width} Å" for width in CELLS}, help="Of decimals; a bin is one"),
)
COLUMNS = {
    "atom": Column("atom", is_pinned=True),
    "element": Column("element"),
    "axis": Column("axis", help="Each given the numbers before it"),
    "written": Column("written", "Å"),
    "mean": Column("mean", "Å"),
    "spread": Column("spread", "Å", "Standard deviation"),
    "low": Column("90 % from", "Å", "5 % of the mass is below"),
    "high": Column("to", "Å", "5 % of the mass is above"),
    "modes": Column("modes", help="In Å, with the share of the mass of each"),
    "struck": Column("struck", "%", "Share of the mass without a right place, as `shaped` asks"),
    "rest": Column("not opened", "%"),
    "width": Column("width", help="Whether 90 % intervals of this model's axis hold 85 to 95 % of held-out numbers"),
    "block": Column(is_hidden=True),
}
CHARTS = ()
TABLES = ("main",)


def _asked(store: Store, samples: Sequence[SampleOf], options: Options) -> tuple[Inspected, BeliefRequest]:
    (of,) = samples
    seen = inspect_sample(store, of.entry.id, of.sample_id)
    return seen, request_of(seen, decimals=CELLS[options["belief_cell"]])


def depends(store: Store, samples: Sequence[SampleOf], options: Options) -> str:
    """The model may be asked about other texts, or other weights may have its name."""
    return coverage_digest(_asked(store, samples, options)[1].entry)


def tables(store: Store, samples: Sequence[SampleOf], options: Options) -> Tables:
    (of,), (seen, request) = samples, _asked(store, samples, options)
    beliefs = request.kept()
    if beliefs is None:
        words = ["belief", f"{of.entry.id}/{of.sample_id}", f"--cell={options['belief_cell']}"]
        raise NeedsWork("the model was not asked about the numbers of this sample", words)
    return belief_tables(seen, request.entry, beliefs)


def belief_tables(seen: Inspected, entry: ModelEntry, beliefs: Sequence[NumberBelief]) -> Tables:
    by_axis = widths(kept_coverage(entry))
    return {
        "main": rows_table([row_of(belief, seen.molecule.elements, by_axis) for belief in beliefs], ["atom"]),
        "cells": rows_table([cell for belief in beliefs for cell in cells_of(belief)], ["block", "axis"]),
        "about": rows_table([{"model": entry.name}]),
    }


def row_of(belief: NumberBelief, elements: Sequence[str], by_axis: Mapping[str, str]) -> dict[str, Any]:
    """One number; ``by_axis``: how wide the model's laws of an axis are."""
    law = belief.law
    return {
        "atom": belief.block % len(elements),
        "block": belief.block,
        "element": elements[belief.block % len(elements)],
        "axis": AXES[belief.axis],
        "written": belief.written,
        "mean": law.mean,
        "spread": law.spread,
        "low": law.quantile(0.05),
        "high": law.quantile(0.95),
        "modes": ", ".join(f"{fixed(value, 2)} ({percent(share)})" for value, share in law.modes[:3]),
        "struck": belief.struck,
        "rest": law.rest,
        "width": by_axis.get(AXES[belief.axis], ""),
    }


def cells_of(belief: NumberBelief) -> list[dict[str, Any]]:
    of = {"block": belief.block, "axis": AXES[belief.axis]}
    cells = zip(belief.low, belief.high, belief.p, belief.right, strict=True)
    return [{**of, "cell_low": low, "cell_high": high, "p": p, "right": right} for low, high, p, right in cells]


def answer(tables: Tables, options: Options) -> str:
    (about,) = tables["about"].to_pylist()
    rows = tables["main"].to_pylist()
    if not rows:
        return f"No number of this text has a law: {about['model']} under exact would not write it."
    widest = max(rows, key=lambda row: row["spread"])
    inside = sum(row["low"] <= row["written"] <= row["high"] for row in rows)
    words = (
        f"{about['model']} is least certain of {widest['axis']} of {widest['element']}, atom {widest['atom']}: "
        f"{fixed(widest['mean'], 2)} ± {angstrom(widest['spread'])}, where {fixed(widest['written'], 2)} was written. "
        f"{inside} of {counted(len(rows), 'number')} lie in their 90 % interval."
    )
    notes = ["Each axis is given the numbers before it."]
    notes += [width_words(row["axis"], row["width"]) for row in rows[:3] if row["width"]]
    return "\n\n".join([words, "\n".join(notes)])
