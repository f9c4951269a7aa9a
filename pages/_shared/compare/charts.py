"""The Compare page's charts: each answers one question about the runs that are compared.

Each is a fragment: what is chosen in one draws that one anew. Masks come last, since an LP's tables take a while.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

from engine.store.store import Store
from pages._shared.compare import (
    charts_budget,
    charts_data,
    charts_failures,
    charts_lengths,
    charts_masks,
    charts_pass,
    charts_scatter,
    charts_slowdown,
)
from pages._shared.compare.charts_words import SYMBOLS
from pages._shared.compare.state import Chosen

MOST_TESTS = len(SYMBOLS) - 1


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no run is compared."""
    if chosen is None:
        words = "Choose a control above, and tests beside it: each chart answers a question about them."
        st.info(words, icon=":material/arrow_upward:")
        return
    st.html(f"<style>{_css()}</style>")
    chosen = _drawn(chosen)
    with st.spinner("Comparing samples …"):
        beside = charts_data.beside(store, chosen)
    with st.container(key="compare-charts"):
        (slow, passing), (failed, lengths), (spent, masked) = (st.columns(2, gap="small") for _ in range(3))
        with slow:
            charts_slowdown.show(chosen, beside)
        with passing:
            charts_pass.show(store, chosen, beside)
        with failed:
            charts_failures.show(store, chosen)
        with lengths:
            charts_lengths.show(store, chosen)
        with spent:
            charts_budget.show(chosen)
        charts_scatter.show(store, chosen, beside)
        with masked:
            charts_masks.show(store, chosen)


def _drawn(chosen: Chosen) -> Chosen:
    """As many runs as have a symbol of their own; letters and colours stay what they are."""
    shown = chosen.tests[:MOST_TESTS]
    if len(shown) < len(chosen.tests):
        last = chosen.letter(shown[-1].id)
        st.info(
            f"Charts draw the control and its first {MOST_TESTS} tests, A to {last}; the table beside has all "
            f"{len(chosen.tests)}. Compare fewer runs to see the others here.",
            icon=":material/filter_list:",
        )
    return Chosen(chosen.control, shown)


@cache
def _css() -> str:
    return Path(__file__).with_name("charts.css").read_text(encoding="utf-8")
