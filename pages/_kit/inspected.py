"""The store with the live page's unsaved runs, and one sample of it taken apart, kept for the next rerun.

Runs never change, so their checksums name an answer. Answers are shared by all visitors and never written to.
"""

from __future__ import annotations

import streamlit as st

from engine.inspection.runs import RunFacts, run_facts
from engine.inspection.sample import Inspected, inspect_sample
from engine.store.entries import Entry
from engine.store.store import Store, keep, with_temporary
from pages._kit.errors import escaped, shown_errors


def save_run(entry: Entry, label: str = "") -> None:
    """An unsaved run into the store; then the page is drawn again."""
    with shown_errors("The run", stops=False):
        with st.spinner("Writing the run …"):
            keep(entry, Store.open().home, label)
        st.toast(f"Saved as {escaped(entry.id)}", icon=":material/save:")
        st.rerun()


def open_store() -> Store:
    """The store, and next to it what the live page wrote and nobody has saved."""
    return with_temporary(Store.open()).snapshot()


def inspected_in(store: Store, run_id: str | None, sample_id: int) -> Inspected | None:
    """None where the run is not there, or not any more."""
    if run_id is None or run_id not in {entry.id for entry in store.listing().entries}:
        return None
    return inspected(store, run_facts(store, run_id), sample_id)


@st.cache_resource(
    max_entries=32,  # a megabyte each
    show_spinner="Aligning tokens …",
    hash_funcs={RunFacts: lambda run: run.key},
)
def inspected(_store: Store, run: RunFacts, sample_id: int) -> Inspected:
    return inspect_sample(_store, run.run_id, sample_id)
