"""The store with the live page's unsaved runs, and one sample of it taken apart, kept for the next rerun.

Runs never change, so their checksums name an answer. Answers are shared by all visitors and never written to.
"""

from __future__ import annotations

import streamlit as st

from engine.inspection.runs import RunFacts
from engine.inspection.sample import Inspected, inspect_sample
from engine.store.store import Store
from engine.store.temporary_runs import with_temporary


def open_store() -> Store:
    """The store, and beside it what the live page wrote and nobody has saved."""
    return with_temporary(Store.open()).snapshot()


@st.cache_resource(max_entries=128, show_spinner="Aligning tokens …", hash_funcs={RunFacts: lambda run: run.key})
def inspected(_store: Store, run: RunFacts, sample_id: int) -> Inspected:
    return inspect_sample(_store, run.run_id, sample_id)
