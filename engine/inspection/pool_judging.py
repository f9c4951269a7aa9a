"""A pool of conformers judged without a store and without a model: a row per conformer, a row per molecule, a summary.

What it does not know: texts. ``passed``, ``decodes`` and ``clean`` are null, and ``usable`` asks for the right
molecule, stereo and geometry alone.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from engine.chem.geometry import judged_with
from engine.chem.pools import PoolConformer, pool_records, read_pool
from engine.chem.smiles import read_text_order
from engine.chem.verdict import PLAIN, JudgeSettings
from engine.errors import DriftscopeError, FileError, shown
from engine.store.columns import FLAG, TEXT
from engine.store.sample_rows import verdict_row
from engine.store.schema import SAMPLES
from engine.user_files import writing

Row = dict[str, Any]
TOLD_EVERY = 50
FORMS = (".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class JudgedPool:
    """``conformers`` in the pool's order; ``left_out`` could not be read, or not be judged to the end."""

    path: Path
    settings: JudgeSettings
    conformers: list[Row]
    left_out: list[Row]

    def molecules(self) -> list[Row]:
        """In the order in which they come first."""
        groups: dict[str, list[Row]] = {}
        for row in self.conformers:
            groups.setdefault(row["smiles"], []).append(row)
        return [{"smiles": smiles, **_rates(rows)} for smiles, rows in groups.items()]

    def summary(self) -> Row:
        smiles_from = Counter(row["smiles_from"] for row in self.conformers)
        return {
            "molecules": len({row["smiles"] for row in self.conformers}),
            **_rates(self.conformers),
            "left_out": len(self.left_out),
            "smiles_from": dict(smiles_from.most_common()),
            "judged_with": judged_with(self.settings.geometry),
        }


def judge_pool(
    path: Path,
    settings: JudgeSettings = PLAIN,
    *,
    workers: int | None = None,
    limit_s: float = 60.0,
    progress: Callable[[int], object] = lambda done: None,
    each: Callable[[PoolConformer], object] = lambda conformer: None,
) -> JudgedPool:
    """FileError where the file has no conformer at all. ``each`` gets every one as it was read and judged."""
    rows, left_out = list[Row](), list[Row]()
    with closing(read_pool(pool_records(path), settings, workers=workers, limit_s=limit_s)) as conformers:
        for done, conformer in enumerate(conformers, start=1):
            each(conformer)
            if conformer.problem:
                left_out.append({"source": conformer.source, "smiles": conformer.asked, "reason": conformer.problem})
            else:
                rows.append(_row(conformer))
            if done % TOLD_EVERY == 0:
                progress(done)
    if not rows:
        first = f". The first: {left_out[0]['source']}: {left_out[0]['reason']}" if left_out else ""
        problem = f"{shown(path.name, 200)} has no conformer that can be judged{first}"
        raise FileError(problem, "Give SDF, a folder of SDFs, Parquet or a pickle with conformers")
    return JudgedPool(path, settings, rows, left_out)


def _row(conformer: PoolConformer) -> Row:
    """The keys of a judged text, those of texts null."""
    verdict = conformer.verdict
    assert verdict is not None, "a pool that was not judged"

    return {
        "source": conformer.source,
        "smiles": conformer.asked,
        "smiles_from": conformer.smiles_from,
        "conformer_smiles": conformer.smiles,
        "heavy_atoms": _heavy_atoms(conformer.asked),
        "passed": None,
        "decodes": None,
        "clean": None,
        "same_graph": conformer.same_graph,
        "issues": [],
        **verdict_row(None, verdict),
        "usable": conformer.same_graph is not False and verdict.is_usable(clean=True),  # with a text that were clean
    }


@lru_cache(4_096)
def _heavy_atoms(smiles: str) -> int | None:
    try:
        return int(read_text_order(smiles).GetNumHeavyAtoms())
    except DriftscopeError:
        return None


def _rates(rows: Sequence[Row]) -> Row:
    """Shares from 0 to 1 of those with anything to judge, null where there is none; and how many fail each check."""

    def share(name: str) -> float | None:
        values = [row[name] for row in rows if row[name] is not None]
        return fmean(values) if values else None

    strains = [row["strain_kcal"] for row in rows if row["geometry_right"] and row["strain_kcal"] is not None]
    failed = Counter(check for row in rows for check in dict.fromkeys(failed["check"] for failed in row["failed"]))
    return {
        "conformers": len(rows),
        "stereo_judged": sum(row["stereo_right"] is not None for row in rows),
        "stereo_right": share("stereo_right"),
        "geometry_right": share("geometry_right"),
        "usable": share("usable"),
        "strain_kcal": fmean(strains) if strains else None,
        "failed": dict(failed.most_common()),
    }


# --- files ------------------------------------------------------------------------------------------------------------


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """A row per conformer, whole or not at all. In CSV a failed check is ``check (atoms): detail``."""
    with writing(path) as file:
        if path.suffix.lower() == ".csv":
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            for row in rows:
                failed = [
                    f"{check['check']} ({' '.join(map(str, check['atoms']))}): {check['detail']}"
                    for check in row["failed"]
                ]
                writer.writerow({**row, "issues": "", "failed": "; ".join(failed)})
            file.write(text.getvalue().encode())
            return
        types = {name: column.type for name, column in SAMPLES.by_name.items()}
        schema = pa.schema([(name, types.get(name, TEXT if name != "same_graph" else FLAG)) for name in rows[0]])
        parquet.write_table(pa.Table.from_pylist(list(rows), schema), file)
