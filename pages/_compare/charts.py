"""The Compare page's charts: each answers one question about the runs that are compared.

Each is a fragment: a choice in one redraws only that one. Masks come last, since building an LP's tables takes a while.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from engine.store.store import Store
from pages._compare import (
    charts_budget,
    charts_data,
    charts_failures,
    charts_lengths,
    charts_masks,
    charts_pairs,
    charts_pass,
    charts_slowdown,
)
from pages._compare.runs import RunSelection
from pages._shared.charts.chart import SYMBOLS

MOST_TESTS = len(SYMBOLS) - 1


def show(store: Store, chosen: RunSelection) -> None:
    st.html(Path(__file__).with_name("charts.css"))
    chosen = _drawn(chosen)
    with st.spinner("Comparing samples …"):
        compared = charts_data.compared_runs(store, chosen)
    with st.container(key="compare-charts"):
        (slow, passing), (failed, lengths), (spent, masked) = (st.columns(2, gap="small") for _ in range(3))
        with slow:
            charts_slowdown.show(chosen, compared)
        with passing:
            charts_pass.show(store, chosen, compared)
        with failed:
            charts_failures.show(store, chosen)
        with lengths:
            charts_lengths.show(store, chosen)
        with spent:
            charts_budget.show(chosen)
        charts_pairs.show(store, chosen, compared)
        with masked:
            charts_masks.show(store, chosen)


def _drawn(chosen: RunSelection) -> RunSelection:
    """As many runs as there are symbols; letters and colours stay."""
    shown = chosen.tests[:MOST_TESTS]
    if len(shown) < len(chosen.tests):
        last = chosen.letter(shown[-1].id)
        st.info(
            f"Charts draw the control and its first {MOST_TESTS} tests, A to {last}; *Side by side* has all "
            f"{len(chosen.tests)}. Compare fewer runs to see the others here.",
            icon=":material/filter_list:",
        )
    return RunSelection(chosen.control, shown)
