"""The Drift inspector's downloads: the table, conformers, and one sample's steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.chem.structure_files import to_sdf
from engine.inspection.conformers import conformers_of, properties_of, why_no_conformers
from engine.inspection.sample import Inspected
from engine.records import ReaderName
from engine.store.schema import STEPS
from engine.store.store import Store
from pages._kit.handover import report_button
from pages._kit.table_files import file_button, parquet_of, table_buttons

GROUP_HELP = "As the group's runner reads them: junk is taken for numbers where there are any"


def buttons(store: Store, table: pa.Table) -> None:
    table_buttons(table, "molecules", key="molecules", subject="These rows")
    runs = [store.entry(run_id) for run_id in pc.unique(table["run_id"]).to_pylist()]
    readers: tuple[tuple[ReaderName, str, str, str], ...] = (
        ("strict", "SDF", "conformers.sdf", "Conformers of the texts that the strict reader takes"),
        ("group", "SDF by the group's reader", "conformers-group.sdf", GROUP_HELP),
    )
    for reader, words, name, about in readers:
        reasons = [why_no_conformers(store, run, reader) for run in runs]
        make = partial(sdf_of, store, table, reader)
        file_button(words, make, name, disabled=all(reasons), help=reasons[0] if all(reasons) else about)

    report_button([run.id for run in runs], key="report_of_runs")


def sdf_of(store: Store, table: pa.Table, reader: ReaderName = "strict") -> str:
    """The conformers of a table's samples, run by run; a text that the reader refuses is left out."""
    by_run: dict[str, list[int]] = {}
    for run_id, sample_id in zip(table["run_id"].to_pylist(), table["sample_id"].to_pylist(), strict=True):
        by_run.setdefault(run_id, []).append(sample_id)
    return "".join(to_sdf(*conformers_of(store, run_id, samples, reader)) for run_id, samples in by_run.items())


def sdf_of_one(inspection: Inspected, *, by_group: bool = False) -> str:
    """The conformer that is shown, where ``incomplete`` says which atoms are missing; or what the group's reader makes
    of the text, where ``misread_most_ang`` says how far it is off."""
    sample = inspection.sample
    group = inspection.by_group if by_group else None
    mol = inspection.conformer if group is None else group.mol
    if mol is None:
        return ""
    several = len(inspection.shapes) > 1
    why_no_conformer = inspection.why_no_conformer or None
    of_reader: dict[str, Any] = {"incomplete": why_no_conformer}
    if group is not None:
        misread_ang = None if group.farthest is None else group.misread[group.farthest]
        of_reader = {"reader": "group", "misread_blocks": len(group.misread), "misread_most_ang": misread_ang}
    properties = {
        **properties_of(sample, inspection.number if several else None),
        **{name: value for name, value in of_reader.items() if value is not None},
    }
    number = f"/{inspection.number}" if several else ""
    return to_sdf([(f"{inspection.run.run_id} #{sample['sample_id']}{number}", mol)], [properties])


def steps_of_one(inspection: Inspected, steps: Mapping[int, Mapping[str, Any]]) -> bytes:
    """The steps that are shown, as the store's table has them."""
    ids = {"run_id": inspection.run.run_id, "sample_id": inspection.sample["sample_id"]}
    rows = []
    for step in steps.values():
        columns = {key: step[key] for key in step if key in STEPS.names}
        top_k = [{key: top[key] for key in ("token_id", "p_raw", "allowed")} for top in step["top_k"] or ()]
        rows.append({**columns, **ids, "top_k": top_k})
    return parquet_of(STEPS.rows(rows))
