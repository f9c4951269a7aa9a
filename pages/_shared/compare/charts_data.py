"""What the Compare page's charts ask of the engine, kept for the next rerun.

Runs never change, so their checksums name an answer. Answers are shared by all visitors and never written to.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.comparing.failures import Failures, TokenHistogram, failures, token_histogram
from engine.comparing.figures import Beside, ratios_of, run_figures
from engine.comparing.paired import compare_entries
from engine.comparing.scatter import Scatter, scatter
from engine.comparing.templates import MaskSizes, mask_sizes_of_run
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.compare.state import Chosen

Keys = tuple[tuple[str, ...], ...]


def beside(store: Store, chosen: Chosen) -> tuple[Beside, ...]:
    """Every test's figures and ratios, without drift: no chart here asks for it, and it would have to be read."""
    control = run_figures(chosen.control)
    found = []
    for test in chosen.tests:
        figures, paired = run_figures(test), compare_entries(store, chosen.control, test)  # which it keeps
        found.append(Beside(figures, paired, ratios_of(control, figures, paired)))
    return tuple(found)


def failures_of(store: Store, runs: Sequence[Entry]) -> Failures:
    return _failures(store, tuple(run.key for run in runs))


def lengths_of(store: Store, runs: Sequence[Entry]) -> TokenHistogram:
    return _lengths(store, tuple(run.key for run in runs))


def scatter_of(store: Store, control: Entry, test: Entry, measure: str) -> Scatter:
    return _scatter(store, control.key, test.key, measure)


def masks_of(store: Store, run: Entry) -> MaskSizes:
    """Seconds at first: an LP's tables are made for it."""
    row = run.row
    told = tuple(str(row.get(name) or "") for name in ("model_alias", "model_step", "tokenizer", "lp", "placeholder"))
    return _masks(store, (*run.key, *told))


@st.cache_resource(max_entries=24, show_spinner="Counting failures …")
def _failures(_store: Store, keys: Keys) -> Failures:
    return failures(_store, [key[0] for key in keys])


@st.cache_resource(max_entries=24, show_spinner="Counting tokens …")
def _lengths(_store: Store, keys: Keys) -> TokenHistogram:
    return token_histogram(_store, [key[0] for key in keys])


@st.cache_resource(max_entries=24, show_spinner="Pairing samples …")
def _scatter(_store: Store, control: tuple[str, ...], test: tuple[str, ...], measure: str) -> Scatter:
    return scatter(_store, control[0], test[0], measure)


@st.cache_resource(max_entries=64, show_spinner=False)
def _masks(_store: Store, key: tuple[str, ...]) -> MaskSizes:
    return mask_sizes_of_run(_store, key[0])
