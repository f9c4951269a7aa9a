"""Is the spread of a model's laws right? The share of true numbers in the laws' 50 % and 90 % intervals.

Held-out molecules, one conformer by ETKDG each in the frame of the demo models' training, or texts of a file, are read
teacher-forced: each number against the law that the model has of it. Intervals are central: as much mass below as
above. What the frame puts at 0 is left out: numbers that are exactly 0; of bins, the bin of 0 at the six numbers that
the demo models' frame fixes. 95 % bootstrap intervals over molecules. Where
the 90 % interval does not hold 85 to 95 %: the factor by which the spread would have to change so that it holds 90 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ModelError
from engine.figures.statistics import Bootstrap
from engine.figures.words import counted, fixed, percent
from engine.jobs.number_beliefs import coverage_digest, kept_coverage
from engine.lp.numbers import AXES
from engine.models.registry import ModelEntry, load_registry
from engine.questions.question import Chart, Column, NeedsWork, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, model_name
from engine.store.store import Store

TITLE = "Is the spread of the model's numbers right?"
OF = Of("model", most=100_000)
OPTIONS = ()
ALL = "all"
SHARES = (0.5, 0.9)
LEAST, MOST = 0.85, 0.95
COLUMNS = {
    "axis": Column("axis", is_pinned=True),
    "numbers": Column("numbers"),
    "in_50": Column("in 50 %", "%", "Of the true numbers, in the central interval with half of the mass"),
    "in_50_low": Column("from", "%"),
    "in_50_high": Column("to", "%"),
    "in_90": Column("in 90 %", "%"),
    "in_90_low": Column("from", "%"),
    "in_90_high": Column("to", "%"),
    "factor": Column("factor", "×", "On the spread, with which the 90 % interval would hold 90 %"),
    "width": Column("width"),
}
CHARTS = (Chart("points", "in_90", "axis", colour="axis", low="in_90_low", high="in_90_high", line_at=0.9),)
TABLES = ("main",)


def _asked(entries: Sequence[Entry]) -> ModelEntry:
    model = model_name(entries[0].row)
    if not model:
        raise ModelError(f"{entries[0].id} names no model", "Choose a run of a registered model")
    return load_registry().find(model)


def depends(store: Store, entries: Sequence[Entry], options: Options) -> str:
    """The model may be asked again, about other texts."""
    return coverage_digest(_asked(entries))


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    entry = _asked(entries)
    levels = kept_coverage(entry)
    if levels is None:
        raise NeedsWork(f"{entry.name} was not asked about held-out texts", ["belief", entry.name])
    about = {
        "model": model_name(entries[0].row),
        "texts": pc.count_distinct(levels["molecule"]).as_py(),
        "source": levels["source"][0].as_py(),
    }
    return {"main": rows_table(coverage_rows(levels), [*COLUMNS]), "about": rows_table([about])}


def coverage_rows(levels: pa.Table) -> list[dict[str, object]]:
    """Of all numbers and by axis; rows of molecule, axis, level and reach."""
    molecule, axis, level, reach = (levels[name].to_numpy() for name in ("molecule", "axis", "level", "reach"))
    rows = []
    for name, chosen in {ALL: axis >= 0, **{word: axis == number for number, word in enumerate(AXES)}}.items():
        if not chosen.any():
            continue
        units = np.unique(molecule[chosen], return_inverse=True)[1]
        count = np.bincount(units).astype(float)
        bootstrap = Bootstrap(len(count))
        factor = float(np.quantile(reach[chosen], 0.9))
        is_in = {share: np.abs(level[chosen] - 0.5) <= share / 2 for share in SHARES}
        in_50, in_90 = (bootstrap.share(np.bincount(units, is_in[share]).astype(float), count) for share in SHARES)
        assert in_50 is not None and in_90 is not None
        rows.append(
            {
                "axis": name,
                "numbers": int(chosen.sum()),
                "in_50": in_50.value,
                "in_50_low": in_50.low,
                "in_50_high": in_50.high,
                "in_90": in_90.value,
                "in_90_low": in_90.low,
                "in_90_high": in_90.high,
                "factor": factor,
                "width": _width(in_90.value, factor),
            }
        )
    return rows


def _width(share: float, factor: float) -> str:
    if LEAST <= share <= MOST:
        return ""
    return f"too narrow by {fixed(factor, 1)}" if share < LEAST else f"too wide by {fixed(1 / max(factor, 1e-3), 1)}"


def widths(levels: pa.Table | None) -> Mapping[str, str]:
    """By axis, where something is known and the width is not right."""
    return {} if levels is None else {str(row["axis"]): str(row["width"]) for row in coverage_rows(levels)}


def width_words(axis: str, width: str) -> str:
    return f"{axis}: on held-out texts the model's intervals are {width}."


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    (about,) = tables["about"].to_pylist()
    whole = rows[0]
    shares = [
        f"{percent(whole[name])} ({percent(whole[f'{name}_low'])} to {percent(whole[f'{name}_high'])}) in the {words}"
        for name, words in (("in_50", "50 % interval"), ("in_90", "90 % interval"))
    ]
    lines = [f"{about['model']}: of {counted(whole['numbers'], 'true number')} {' and '.join(shares)}."]
    lines += [width_words(row["axis"], row["width"]) for row in rows if row["width"]]
    return answer_text(lines, [f"{counted(about['texts'], 'text')}: {about['source']}."])
