"""What to do with a lane that was written: look into it, keep it, download it."""

from __future__ import annotations

import io
import json
from functools import partial

import pyarrow.parquet as pq
import streamlit as st

from engine.chem.files import to_sdf
from engine.errors import DriftscopeError
from engine.inspection.conformers import conformers_of
from engine.store.entries import Entry
from engine.store.passing import is_passing, keep, with_passing
from engine.store.reports.exporting import report_of
from engine.store.schema import STEPS
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.live.session import Running

PAGE = "pages/drift.py"


def lane_files(one: Running, entry: Entry, shown: int) -> None:
    """Three buttons, side by side where there is room."""
    with st.container(horizontal=True):
        if st.button("Inspect", icon=":material/search:", key=f"inspect_{one.number}", help="Open in the inspector"):
            st.switch_page(PAGE, query_params={"run": entry.id, "sample": str(shown)})
        _keep_button(one, entry)
        with st.popover("Download", icon=":material/download:"):
            _downloads(one, entry)


def _keep_button(one: Running, entry: Entry) -> None:
    if not is_passing(entry):
        st.button("Kept", icon=":material/check:", key=f"keep_{one.number}", disabled=True, help=f"As {entry.id}")
        return
    said = "Write it to the store, where it stays and others find it"
    if st.button("Keep as run", icon=":material/save:", key=f"keep_{one.number}", help=said):
        try:
            keep(entry, Store.open().home)
        except DriftscopeError as error:
            st.error(escape_markdown(str(error)), icon=":material/error:")
        else:
            st.toast(f"Kept as {escape_markdown(entry.id)}", icon=":material/save:")
            st.rerun()


def _downloads(one: Running, entry: Entry) -> None:
    name = entry.id
    st.download_button(
        "Conformers (SDF)",
        partial(_sdf, entry),
        f"{name}.sdf",
        "chemical/x-mdl-sdfile",
        key=f"sdf_{one.number}",
        on_click="ignore",
        help="Every answer that can be read.",
    )
    st.download_button(
        "Report (JSON)",
        partial(_report, entry),
        f"{name}.json",
        "application/json",
        key=f"report_{one.number}",
        on_click="ignore",
        help="In the form of the reports' own files.",
    )
    st.download_button(
        "Steps (Parquet)",
        partial(_steps, entry),
        f"{name}-steps.parquet",
        "application/vnd.apache.parquet",
        key=f"steps_{one.number}",
        on_click="ignore",
        disabled=STEPS.name not in entry.parts,
        help="Every token, with what the model thought before and after the LP.",
    )


def _sdf(entry: Entry) -> str:
    return to_sdf(*conformers_of(with_passing(Store.open()), entry.id))


def _report(entry: Entry) -> str:
    return json.dumps(report_of(entry), ensure_ascii=False, indent=2)


def _steps(entry: Entry) -> bytes:
    table = pq.read_table(entry.path(STEPS.name), filesystem=entry.files.filesystem, partitioning=None)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
