"""The buttons of a finished lane: inspect, save, download; and one that downloads all lanes."""

from __future__ import annotations

import functools
import io
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
import streamlit as st

from engine.chem.molecule_sets import load_named
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import to_sdf
from engine.inspection.conformers import conformers_of, why_no_conformers
from engine.inspection.molecules import sample_table
from engine.store.entries import Entry
from engine.store.reports.exporting import report_bytes
from engine.store.schema import STEPS
from engine.store.store import Store, is_temporary, with_temporary
from pages._kit.inspected import save_run
from pages._kit.table_files import csv_of, file_button, parquet_of
from pages._live.session import Running

PAGE = "pages/drift.py"
STEPS_HELP = "Every token, with its probabilities before and after the LP."


def lane_files(lane: Running, entry: Entry, shown: int) -> None:
    with st.container(horizontal=True):
        if st.button(
            "Inspect", icon=":material/search:", key=f"inspect_{lane.number}", help="Open in the drift inspector"
        ):
            st.switch_page(PAGE, query_params={"run": entry.id, "sample": str(shown)})
        if not is_temporary(entry):
            st.button("Saved", icon=":material/check:", key=f"keep_{lane.number}", disabled=True, help=f"As {entry.id}")
        elif st.button(
            "Save to store",
            icon=":material/save:",
            key=f"keep_{lane.number}",
            help="Save this run to the store, with its branches",
        ):
            save_run(entry)
        with st.popover("Download", icon=":material/download:"):
            _downloads(lane, entry)


def all_files(lanes: Sequence[Running], entries: Mapping[str, Entry]) -> None:
    """One button for what the lanes' own download menus have."""
    written = [(lane, entries.get(lane.run_id or "")) for lane in lanes]
    done = [(f"{lane.number}-{lane.lp}", entry) for lane, entry in written if entry]
    about = "Of every lane its conformers with verdicts (SDF) and its report (JSON), and one table of all samples."
    file_button("Download all", partial(zip_of, done), "lanes.zip", key="download_all", help=about, type="secondary")


def zip_of(lanes: Sequence[tuple[str, Entry]]) -> bytes:
    """A name a lane next to its run."""
    table = sample_table(with_temporary(Store.open()), [entry.id for _, entry in lanes])
    names = [names_by_smiles().get(smiles, "") for smiles in table["smiles"].to_pylist()]
    table = table.add_column(0, "name", pa.array(names, pa.string()))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples.csv", csv_of(table))
        for name, entry in lanes:
            why = why_no_conformers(with_temporary(Store.open()), entry)
            archive.writestr(f"{name}-no-conformers.txt" if why else f"{name}.sdf", why or _sdf(entry))
            archive.writestr(f"{name}.json", report_bytes(entry))
    return file.getvalue()


def _downloads(lane: Running, entry: Entry) -> None:
    no_steps, no_sdf = STEPS.name not in entry.parts, why_no_conformers(with_temporary(Store.open()), entry)
    for key, label, ending, make, about, is_off in (
        ("sdf", "Conformers (SDF)", ".sdf", _sdf, no_sdf or "Every readable conformer.", bool(no_sdf)),
        ("report", "Report (JSON)", ".json", report_bytes, "In the reports' file format.", False),
        ("steps", "Steps (Parquet)", "-steps.parquet", _steps, STEPS_HELP, no_steps),
    ):
        name, content = f"{entry.id}{ending}", partial(make, entry)
        file_button(label, content, name, key=f"{key}_{lane.number}", disabled=is_off, help=about, type="secondary")


@functools.cache
def names_by_smiles() -> dict[str, str]:
    """Of the named molecules."""
    return {parse_smiles(smiles).smiles: name for name, smiles in load_named().items()}


def _sdf(entry: Entry) -> str:
    mols, properties = conformers_of(with_temporary(Store.open()), entry.id)
    names = [names_by_smiles().get(record["smiles"]) for record in properties]
    named = [(name or title, mol) for name, (title, mol) in zip(names, mols, strict=True)]
    return to_sdf(named, properties)


def _steps(entry: Entry) -> bytes:
    return parquet_of(entry.read(STEPS.name))
