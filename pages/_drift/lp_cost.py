"""The panel of *What the LP did* with its cost as one number: a sentence, and where in the texts it arises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.figures.words import with_interval
from engine.inspection.lp_cost import Place, RunCost, cost_of_run
from engine.inspection.lp_cost_words import disagreement_words, effective_words, nat, sentences_of
from engine.inspection.runs import RunFacts
from engine.store.store import Store
from pages._shared.charts.card import card, choice
from pages._shared.charts.chart import Axis, Chart, Marks, chart, lanes
from pages._shared.errors import escape_markdown
from pages._shared.sections import in_detail
from pages._shared.theme import palette
from pages._shared.words import unbroken

HELP = (
    "log w of a sample is the sum over its tokens of ln p − ln q: p the model's probability at the sampling's"
    " temperature, q the one that the token was drawn with, 1 where it was forced. log p(C) is the model's own mass on"
    " all texts that the LP admits."
)
PLACES = {"along": "along the answer", "parts": "by segment and number", "elements": "by element"}
PARTS = {"forced": "forced tokens", "free": "mask at free tokens", "filters": "sampling filters"}
PATTERNS = {"forced": "", "free": "/", "filters": "x"}
LANE, AROUND = 26, 70
"""Pixels."""
SMALLEST = 0.001
"""In nat: what takes less everywhere is not drawn."""
LEAST_REACH = 0.2
"""An axis is not stretched to make next to nothing look like something."""


def show(store: Store, run: RunFacts) -> None:
    cost = cost_of_run(store, run)
    with card("lp-cost", "What does the LP cost the model?", HELP) as panel:
        first, *rest = sentences_of(cost, run.constraint or "The LP")
        panel.tell(first)
        if rest:
            in_detail().markdown(unbroken(escape_markdown(" ".join(rest))))
        if not cost.samples:
            st.caption(
                "One pass of the run's model over the stored tokens tells:"
                f" `.venv/bin/python -m engine cost-of-lp {run.run_id}`"
            )
        if not cost.counting:
            return
        by = choice("Cost", list(PLACES), "cost_by", PLACES)
        places = {"along": cost.tenths, "parts": cost.parts, "elements": cost.elements}[by]
        panel.data(lambda: _rows(places))
        panel.draw(cost_chart(places, by))
        panel.leave_out(disagreement_words(cost), _raw(cost))


def cost_chart(places: Sequence[Place], by: str) -> Chart:
    """A lane for each place, and in it what forcing, the mask and the filters took."""
    colours = palette()
    hues = {"forced": colours.copy, "free": colours.cut, "filters": colours.muted}
    bars = [
        {
            "x": value,
            "y": lane,
            "part": words,
            "colour": hues[part],
            "pattern": PATTERNS[part],
            "width": 0.8,  # one bar alone in its lane would be wider
            "place": place.name,
            "tokens": place.tokens,
        }
        for part, words in PARTS.items()
        if any(abs(getattr(place, part)) >= SMALLEST for place in places)
        for lane, place in enumerate(places)
        if (value := getattr(place, part))
    ]
    wholes = [
        {"x": place.whole.value, "y": lane, "low": place.whole.low, "high": place.whole.high, "place": place.name}
        for lane, place in enumerate(places)
    ]
    unit = "nat per block" if by == "elements" else "nat per sample"
    lows = [place.whole.value if place.whole.low is None else place.whole.low for place in places]
    reach = max([LEAST_REACH, *(-1.08 * low for low in lows if math.isfinite(low))])
    said = "; ".join(f"{place.name}: {with_interval(place.whole, nat)}" for place in places)
    return chart(
        Marks(
            kind="bars",
            rows=bars,
            group="part",
            is_across=True,
            hover=lambda row: (row["place"], f"{row['part']}: {nat(row['x'])} {unit}", f"{row['tokens']:,} tokens"),
        ),
        Marks(
            kind="points",
            rows=wholes,
            interval="x",
            size=6,
            colour=colours.text,
            outline=colours.text,
            hover=lambda row: (row["place"], f"log w {nat(row['x'])} {unit}"),
        ),
        x=Axis(title=f"log w ({unit})", range=[-reach, 0.03 * reach]),
        y=lanes([place.name for place in places]),
        height=AROUND + LANE * len(places),
        bars="stack",
        alt=f"Log w {PLACES[by]}, {unit}, with 95 % intervals. {said}.",
    )


def _rows(places: Sequence[Place]) -> list[dict[str, Any]]:
    return [
        {
            "place": place.name,
            "tokens": place.tokens,
            **{part: getattr(place, part) for part in PARTS},
            "log_w": place.whole.value,
            "low": place.whole.low,
            "high": place.whole.high,
        }
        for place in places
    ]


def _raw(cost: RunCost) -> str:
    if cost.raw == cost.tempered:  # sampled at temperature 1
        return ""
    return (
        f"With the raw p, at temperature 1: log w {with_interval(cost.log_w, nat)} per sample,"
        f" log p(C) {with_interval(cost.raw.log_p, nat)}, {effective_words(cost.raw, cost.samples)},"
        f" KL {with_interval(cost.raw.kl, nat)} nat."
    )
