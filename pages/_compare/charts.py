"""The Compare page's charts: the reader chooses a question, and sees its charts alone.

Each chart is a fragment: a choice in one redraws only that one. All seven at once take a browser more than a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.store.store import Store
from pages._compare import (
    charts_budget,
    charts_failures,
    charts_lengths,
    charts_masks,
    charts_pairs,
    charts_pass,
    charts_slowdown,
)
from pages._compare.runs import RunSelection
from pages._shared.charts.chart import SYMBOLS
from pages._shared.choices import one_of

MOST_TESTS = len(SYMBOLS) - 1
QUESTION = "question"


@dataclass(frozen=True, slots=True)
class ChartGroup:
    """The charts of one question, and their own names in the address."""

    charts: Sequence[Callable[[Store, RunSelection], None]]
    parameters: Sequence[str] = ()


QUESTIONS: Mapping[str, ChartGroup] = {
    "Speed and pass rate": ChartGroup([charts_pass.show], ["all_runs", "passed_too"]),
    "Where time goes": ChartGroup([charts_slowdown.show, charts_budget.show], ["made_of", "time_in"]),
    "Failures": ChartGroup([charts_failures.show, charts_lengths.show]),
    "Molecules": ChartGroup([charts_pairs.show], ["points_of", "points_by", charts_pairs.PAIR]),
    "Masks": ChartGroup([charts_masks.show], ["masked"]),
}


def show(store: Store, chosen: RunSelection) -> None:
    st.html(Path(__file__).with_name("charts.css"))
    chosen = _drawn(chosen)
    _open_named()
    name = one_of("Question", list(QUESTIONS), QUESTION, on_change=charts_pairs.close, label_visibility="collapsed")
    with st.container(key="compare-charts"):
        charts = QUESTIONS[name].charts
        for place, draw in zip(st.columns(len(charts), gap="small"), charts, strict=True):
            with place:
                draw(store, chosen)


def _open_named() -> None:
    """A link that names a chart's choice and no question means that chart's question."""
    if QUESTION in st.query_params:
        return
    for name, group in QUESTIONS.items():
        if any(parameter in st.query_params for parameter in group.parameters):
            st.session_state.setdefault(QUESTION, name)


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
