"""Runs of several models: what the LP does within each model, and what the model does within each LP."""

from __future__ import annotations

import streamlit as st

from engine.comparing.models_by_lp import OneApart, models_by_lp
from engine.figures.words import UNKNOWN, percent, span
from engine.store.store import Store
from pages._compare.charts_data import mark, noise
from pages._compare.runs import RunSelection
from pages._compare.table_words import speed
from pages._shared.html_table import plain_table, style

HEADINGS = ["within", "control", "test", "time per sample", "time per token", "usable"]


def show(store: Store, chosen: RunSelection) -> None:
    """Both comparisons, where two of the runs have one LP and different models."""
    on_over_off, model_over_model = models_by_lp(store, chosen.entries)
    if not model_over_model:
        return
    with st.expander("Model × LP", icon=":material/grid_view:"):
        for title, pairs in (
            ("LP on over off, within each model", on_over_off),
            ("Model over model, within each LP", model_over_model),
        ):
            if pairs:
                st.markdown(f"**{title}**")
                st.html(style() + plain_table(HEADINGS, [row(pair) for pair in pairs], title))


def row(pair: OneApart) -> list[str]:
    rates = [run.usable_rate for run in (pair.control, pair.test.figures)]
    usable = UNKNOWN if None in rates else f"{percent(rates[1])} (control {percent(rates[0])})"
    verdict = mark(pair.test, "usable_rate")
    return [
        pair.within,
        pair.control_name,
        pair.test_name,
        *(_time(pair, figure) for figure in ("wall_s_a_sample", "ms_a_token")),
        f"{usable}, {noise(verdict)}" if verdict else usable,
    ]


def _time(pair: OneApart, figure: str) -> str:
    ratio = pair.test.ratio(figure)
    if ratio.ratio is None:
        return UNKNOWN
    words = speed(ratio.ratio)
    if ratio.interval is not None and ratio.interval.ends and ratio.interval.ends[0] > 0:
        ends = sorted(1 / end for end in ratio.interval.ends) if ratio.ratio < 1 else ratio.interval.ends
        words += f" ({span(*ends)})"
    return f"{words}, {noise(mark(pair.test, figure))}"
