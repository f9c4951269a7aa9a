"""Resolution for free: how many decimals of a run's numbers its molecules need.

Texts of usable samples are truncated to fewer decimals, as their writer truncates, and judged again. What this does not
know: whether a model that writes fewer decimals writes the same molecules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing

import numpy as np
import pyarrow as pa

from engine.chem.enriched import format_number
from engine.chem.judges import JudgeTask, judged
from engine.errors import RunError
from engine.figures.laws import Array
from engine.inspection.judging import conformers_of
from engine.inspection.kept_tables import KeptTable
from engine.records import Alphabet, NumberFormat
from engine.store.entries import Entry, number_format_of, without_samples
from engine.store.store import Store

VERSION = 1
_SAMPLES = "SELECT * FROM samples WHERE run_id = $run AND usable ORDER BY sample_id"
_BLOCK = re.compile(r"<([^<>]*)>")


def resolution_of(entry: Entry) -> KeptTable:
    """A row each sample and number of decimals: whether it is usable still, how far its atoms moved."""
    return KeptTable("resolution", [VERSION, *entry.key])


def decimals_of(entry: Entry) -> int:
    """That its texts have at most."""
    form = number_format_of(entry)
    if isinstance(form, Alphabet) or (form is not None and form.most_decimals < 2):
        what = "bins, codes or one decimal"
        raise RunError(f"{entry.id} writes {what}: none can be dropped", "Choose a run of more decimals")
    return 4 if form is None else form.most_decimals


def truncate_run(
    store: Store,
    run_id: str,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, texts: None,
) -> Entry:
    """Judge the usable samples of a run again, with each smaller number of decimals, and keep what became of them."""
    entry = store.entry(run_id)
    if "samples" not in entry.parts:
        raise without_samples(entry, "truncate")
    most = decimals_of(entry)
    samples = store.table(_SAMPLES, {"run": entry.id}, of=[entry.id]).to_pylist()
    if not samples:
        raise RunError(f"{entry.id} has no usable sample", "Judge it first, or choose another run")
    tasks, rows = list[JudgeTask](), list[dict[str, object]]()
    for sample, text in zip(samples, conformers_of(store, entry, samples), strict=True):
        for decimals in range(1, most):
            tasks.append(JudgeTask(len(tasks), truncated(text, decimals), sample["smiles"]))
            moved = places_of(text) - places_of(tasks[-1].text)
            rmsd_ang = float(np.sqrt((moved**2).sum(axis=1).mean()))
            rows.append({"sample_id": sample["sample_id"], "decimals": decimals, "rmsd_ang": rmsd_ang})
    with closing(judged(iter(tasks), workers=workers)) as verdicts:
        for done, (task, verdict) in enumerate(verdicts, start=1):
            rows[task.key]["usable"] = verdict.is_right
            progress(done, len(tasks))
    resolution_of(entry).write(pa.Table.from_pylist(rows))
    return entry


def truncated(text: str, decimals: int) -> str:
    """An enriched text with so many decimals at most: ``<0.1999,-0.04,2.0>`` of one is ``<0.1,0.0,2.0>``."""
    form = NumberFormat(1, decimals, 6)

    def cut(block: re.Match[str]) -> str:
        return f"<{','.join(format_number(float(number), form) for number in block[1].split(','))}>"

    return _BLOCK.sub(cut, text)


def places_of(text: str) -> Array:
    """[atoms, 3] in angstrom."""
    return np.array([[float(number) for number in block.split(",")] for block in _BLOCK.findall(text)])
