"""What a model believes of each number of a stored text, given the text before it: x, y given x, z given both.

Over what `exact` allows, at temperature 1; no sampling filter counts. Each axis is conditional on the numbers before it
as they were written, so a narrow z does not mean that the atom's place was certain. Cells are uniform inside; figures
are of the 99 % of the mass or more that were opened. A number is within an interval where its cell meets it; modes are
what is written for the densest cells. Struck: the share of the mass in cells where `shaped` finds no right place, given
the atoms before as written. A width is checked by `ask drift_coverage MODEL`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from engine.figures.laws import NumberLaw
from engine.figures.words import angstrom, capitalised, counted, fixed, percent
from engine.inspection.number_beliefs import NOT_ASKED, WRONG
from engine.inspection.sample import Inspected, inspect_sample
from engine.jobs.number_beliefs import BeliefRequest, coverage_of, request_of
from engine.lp.numbers import AXES
from engine.models.registry import ModelEntry
from engine.questions.drift_coverage import width_words, widths
from engine.questions.question import Column, NeedsWork, Of, Option, Options, SampleOf, Tables, answer_text, rows_table
from engine.records import BinFormat
from engine.store.store import Store

TITLE = "What does the model believe of each number?"
OF = Of("sample")
CELLS = {"0.1": 1, "0.01": 2, "0.001": 3}
"""Widths of the cells of decimals, in angstrom, and the decimals that they have."""
WITHIN_ANG = 1e-7
"""So far within its cell is a written number, which is the end of one."""
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
    "modes": Column("modes", help="In Å, as written to the cell's decimals, with the share of the mass of each"),
    "struck": Column("struck", "%", "Share of the mass without a right place, as `shaped` asks"),
    "rest": Column("not opened", "%"),
    "width": Column("width", help="Whether 90 % intervals of this model's axis hold 85 to 95 % of held-out numbers"),
    "is_inside": Column(is_hidden=True),
    "block": Column(is_hidden=True),
}


def _asked(store: Store, samples: Sequence[SampleOf], options: Options) -> tuple[Inspected, BeliefRequest]:
    (of,) = samples
    seen = inspect_sample(store, of.entry.id, of.sample_id)
    return seen, request_of(seen, decimals=CELLS[options["belief_cell"]])


def depends(store: Store, samples: Sequence[SampleOf], options: Options) -> tuple[str, str]:
    """Another cell may be asked for, and the model about other texts."""
    _, request = _asked(store, samples, options)
    return request.kept.version, coverage_of(request.entry).version


def tables(store: Store, samples: Sequence[SampleOf], options: Options) -> Tables:
    (of,), (seen, request) = samples, _asked(store, samples, options)
    cells = request.kept.read()
    if cells is None:
        words = ["belief", f"{of.entry.id}/{of.sample_id}", f"--cell={options['belief_cell']}"]
        raise NeedsWork("the model was not asked about the numbers of this sample", words)
    return belief_tables(seen, request.entry, cells)


def belief_tables(seen: Inspected, entry: ModelEntry, cells: pa.Table) -> Tables:
    """``cells`` as ``belief_cells`` makes them."""
    levels = coverage_of(entry).read()
    by_axis = widths(levels)
    numbers = groupby(cells.to_pylist(), itemgetter("block", "axis"))
    is_bins = isinstance(entry.numbers, BinFormat)
    rows = [number_row(list(of_number), seen.molecule.elements, by_axis, is_bins=is_bins) for _, of_number in numbers]
    check = f"whether intervals are right was not measured here: `belief {entry.name}`" if levels is None else ""
    about = {"model": entry.name, "without": len(AXES) * len(seen.blocks) - len(rows), "check": check}
    return {"main": rows_table(rows, ["atom"]), "cells": cells, "about": rows_table([about])}


def number_row(
    cells: Sequence[Mapping[str, Any]], elements: Sequence[str], by_axis: Mapping[str, str], *, is_bins: bool
) -> dict[str, Any]:
    """One number; ``by_axis``: how wide the model's laws of an axis are."""
    of = cells[0]
    low, high, p, right = (np.array([cell[name] for cell in cells]) for name in ("cell_low", "cell_high", "p", "right"))
    law, atom = NumberLaw(low, high, p, of["rest"]), of["block"] % len(elements)
    width, decimals = (0.0, 2) if is_bins else (high[0] - low[0], round(-math.log10(high[0] - low[0])))
    modes = [(value - math.copysign(width / 2, value), share) for value, share in law.modes[:3]]
    first, last = law.quantile(0.05), law.quantile(0.95)
    inside = of["written"] + math.copysign(WITHIN_ANG, of["written"])  # away from zero, as its cell lies
    meets = (low <= inside) & (inside <= high) & (low <= last) & (high >= first)
    return {
        "atom": atom,
        "block": of["block"],
        "element": elements[atom],
        "axis": of["axis"],
        "written": of["written"],
        "mean": law.mean,
        "spread": law.spread,
        "low": first,
        "high": last,
        "is_inside": first <= inside <= last or bool(meets.any()),
        "modes": ", ".join(f"{fixed(value, decimals)} ({percent(share)})" for value, share in modes),
        "struck": float(law.share[right == WRONG].sum()) if (right != NOT_ASKED).any() else None,
        "rest": law.rest,
        "width": by_axis.get(of["axis"], ""),
    }


def answer(tables: Tables, options: Options) -> str:
    (about,) = tables["about"].to_pylist()
    rows = tables["main"].to_pylist()
    if not rows:
        return f"No number of this text has a law: {about['model']} under exact would not write it."
    widest = max(rows, key=lambda row: row["spread"])
    inside = sum(row["is_inside"] for row in rows)
    words = (
        f"{about['model']} is least certain of {widest['axis']} of {widest['element']}, atom {widest['atom']}: "
        f"{fixed(widest['mean'], 2)} ± {angstrom(widest['spread'])}, where {fixed(widest['written'], 2)} was written. "
        f"{inside} of {counted(len(rows), 'number')} lie in their 90 % interval."
    )
    notes = ["Each axis is given the numbers before it."]
    if about["without"]:
        notes.append(f"{counted(about['without'], 'number')} of blocks that exact would not write: no law.")
    notes += [width_words(row["axis"], row["width"]) for row in rows[:3] if row["width"]]
    return answer_text([words], [*notes, f"{capitalised(about['check'])}." if about["check"] else ""])
