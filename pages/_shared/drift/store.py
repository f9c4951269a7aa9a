"""What the Drift inspector asks of the store, kept for the next rerun.

Runs never change, so their checksums name an answer. Answers are shared by all visitors and never written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import streamlit as st

from engine.inspection.drifts import By, drift_counts, unknown_counts
from engine.inspection.molecules import Filter, sample_table
from engine.inspection.runs import RunFacts
from engine.inspection.sample import Inspected, inspect_sample
from engine.store.passing import with_passing
from engine.store.store import Store

Keys = tuple[tuple[str, ...], ...]


def open_store() -> Store:
    """The store, and beside it what the live page wrote and nobody has kept."""
    return with_passing(Store.open()).still()


def samples(store: Store, runs: Sequence[RunFacts], chosen: Filter) -> pa.Table:
    return _samples(store, _keys(runs), chosen)


def counts(store: Store, runs: Sequence[RunFacts], by: By) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Blocks by group and drift, and those whose drift nobody knows."""
    return _counts(store, _keys(runs), by)


def inspected(store: Store, run: RunFacts, sample_id: int) -> Inspected:
    return _inspected(store, run.key, sample_id)


def _keys(runs: Sequence[RunFacts]) -> Keys:
    return tuple(run.key for run in runs)


@st.cache_resource(max_entries=24, show_spinner="Reading samples …")
def _samples(_store: Store, keys: Keys, chosen: Filter) -> pa.Table:
    return sample_table(_store, [key[0] for key in keys], chosen)


@st.cache_resource(max_entries=48, show_spinner="Counting drift …")
def _counts(_store: Store, keys: Keys, by: By) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    run_ids = [key[0] for key in keys]
    return drift_counts(_store, run_ids, by).to_pylist(), unknown_counts(_store, run_ids, by).to_pylist()


@st.cache_resource(max_entries=128, show_spinner="Aligning tokens …")
def _inspected(_store: Store, key: tuple[str, ...], sample_id: int) -> Inspected:
    return inspect_sample(_store, key[0], sample_id)
