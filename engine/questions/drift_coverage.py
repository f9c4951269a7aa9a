"""Is the spread of a model's laws right? The share of true numbers in the laws' 50 % and 90 % intervals.

Of a model (ALIAS or ALIAS:STEP), or of the model of a run. Held-out molecules, one conformer by ETKDG each in the frame
of the demo models' training, or texts of a file, are read teacher-forced: each number against the law that the model
has of it. Intervals are central: as much mass below as above. What the frame puts at 0 is left out; of texts of bins
that is not known, and nothing is. 95 % bootstrap intervals over
molecules. Where the whole of that of the 90 % interval is outside 85 to 95 %: the factor by which the spread would have
to change so that it holds 90 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ModelError
from engine.figures.statistics import Bootstrap, Interval
from engine.figures.words import counted, fixed, percent, span
from engine.jobs.number_beliefs import coverage_of
from engine.lp.numbers import AXES, check_has_laws
from engine.models.registry import ModelEntry, load_registry
from engine.questions.question import Chart, Column, NeedsWork, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import model_name
from engine.store.store import Store

TITLE = "Is the spread of the model's numbers right?"
OF = Of("text")
ALL = "all"
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


def _asked(store: Store, name: str) -> ModelEntry:
    runs = [entry for entry in store.listing().entries if entry.id == name]
    model = model_name(runs[0].row) if runs else name
    if not model:
        raise ModelError(f"{name} names no model", "Choose a run of a registered model")
    return load_registry().find(model)


def depends(store: Store, names: Sequence[str], options: Options) -> str:
    """The model may be asked again, about other texts."""
    return coverage_of(_asked(store, names[0])).version


def tables(store: Store, names: Sequence[str], options: Options) -> Tables:
    entry = _asked(store, names[0])
    check_has_laws(entry.numbers)
    levels = coverage_of(entry).read()
    if levels is None:
        raise NeedsWork(f"{entry.name} was not asked about held-out texts", ["belief", entry.name])
    texts, source = pc.count_distinct(levels["molecule"]).as_py(), levels["source"][0].as_py()
    about = {"model": entry.name, "texts": texts, "source": source}
    return {"main": rows_table(coverage_rows(levels), [*COLUMNS]), "about": rows_table([about])}


def coverage_rows(levels: pa.Table) -> list[dict[str, object]]:
    """Of all numbers and by axis; rows of molecule, axis, level and reach."""
    molecule, axis, level, reach = (levels[name].to_numpy() for name in ("molecule", "axis", "level", "reach"))
    rows = []
    for name in (ALL, *AXES):
        chosen = axis == name if name in AXES else np.ones(len(axis), dtype=bool)
        if not chosen.any():
            continue
        units = np.unique(molecule[chosen], return_inverse=True)[1]
        count = np.bincount(units).astype(float)
        bootstrap = Bootstrap(len(count))
        factor = float(np.quantile(reach[chosen], 0.9))
        row: dict[str, object] = {"axis": name, "numbers": int(chosen.sum()), "factor": factor}
        for percents in (50, 90):
            is_in = np.abs(level[chosen] - 0.5) <= percents / 200
            share = bootstrap.share(np.bincount(units, is_in).astype(float), count)
            assert share is not None
            key = f"in_{percents}"
            row.update({key: share.value, f"{key}_low": share.low, f"{key}_high": share.high})
            row["width"] = _width(share, factor)  # by that of 90 %, the last
        rows.append(row)
    return rows


def _width(share: Interval, factor: float) -> str:
    """Of the 90 % interval; nothing where it may be right."""
    low, high = share.ends or (0.0, 1.0)
    if high < LEAST:
        return f"too narrow by {fixed(factor, 1)}"
    return f"too wide by {fixed(1 / max(factor, 1e-3), 1)}" if low > MOST else ""


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
        f"{percent(whole[f'in_{percents}'])} "
        f"({span(whole[f'in_{percents}_low'], whole[f'in_{percents}_high'], percent)}) in the {percents} % interval"
        for percents in (50, 90)
    ]
    lines = [f"{about['model']}: of {counted(whole['numbers'], 'true number')} {' and '.join(shares)}."]
    lines += [width_words(row["axis"], row["width"]) for row in rows if row["width"]]
    return answer_text(lines, [f"{counted(about['texts'], 'text')}: {about['source']}."])
