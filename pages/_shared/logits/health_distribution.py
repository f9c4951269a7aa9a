"""How a log's values are distributed, damaged ones apart, on a scale that holds 5 and 1e38 alike."""

from __future__ import annotations

import math
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from engine.logits import windows
from engine.logits.distribution import GROUPS, NON_FINITE, Distribution, Group, distribution, scaled
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.compare.charts_card import card
from pages._shared.logits.health_map_figure import value_words
from pages._shared.theme import Palette, palette

QUESTION = "How are the values distributed?"
HELP = """
Counts of values in bins. The axis is even around zero and logarithmic further out, on both sides; counts are on a
logarithmic axis, so that a handful shows beside a million. What is not finite stands in bars of its own at the right.
"""
WORDS: dict[Group, str] = {"clean": "nothing wrong", "damaged": "damaged", "purpose": "on purpose"}
HEIGHT = 330
ALL = "all"
SIGNS = {"-inf": "−∞", "inf": "+∞", "nan": "NaN"}
_TICKS = (0, 1, 3, 10, 30, 100, 1e3, 1e6, 1e10, 1e15, 1e20, 1e25, 1e30, 1e35, 1e38)
LEAST_APART = 0.13
"""Of the axis, between two ticks that can be read."""


@st.fragment
def show(store: Store, log: Entry) -> None:
    with card("logit-values", QUESTION, HELP) as here:
        checkpoints = list(dict.fromkeys(text.checkpoint for text in windows.texts(store, log)))
        wanted = ""
        if len(checkpoints) > 1:
            picked = st.selectbox("Checkpoint", [ALL, *checkpoints], key="checkpoint", bind="query-params", width=240)
            wanted = "" if picked == ALL else picked
        found = distribution(store, log, wanted)
        said = sentence(found)
        here.tell(said)
        here.data(lambda: rows(found))
        here.draw(figure(found), said)


def sentence(found: Distribution) -> str:
    parts = []
    for group in GROUPS:
        total = found.total(group)
        if total:
            values = "1 value" if total == 1 else f"{total:,} values"
            are = {"clean": "without a flag", "damaged": "damaged", "purpose": "masked or padded on purpose"}[group]
            parts.append(f"{values} {are}{_ends(found, group)}")
    return f"{'; '.join(parts)}." if parts else "No value is there."


def _ends(found: Distribution, group: Group) -> str:
    ends = found.ends(group)
    others = sum(count for (_, own), count in found.non_finite.items() if own == group)
    said = ""
    if ends is not None:
        low, high = map(value_words, ends)
        said = f", {low} to {high}" if low != high else f", {low}"
    return said + (f", {others:,} of them not finite" if others else "")


def rows(found: Distribution) -> list[dict[str, Any]]:
    finite = [
        {"values are": WORDS[one.group], "from": one.least, "to": one.largest, "values": one.values}
        for one in found.bins
    ]
    others = [
        {"values are": WORDS[group], "from": float(name), "to": float(name), "values": count}
        for (name, group), count in found.non_finite.items()
    ]
    return finite + others


def figure(found: Distribution) -> go.Figure:
    colours = palette()
    drawn = go.Figure()
    beside = _beside(found)
    pattern = {"fillmode": "overlay", "fgcolor": colours.background, "size": 5, "solidity": 0.15}
    for group in GROUPS:
        own = [one for one in found.bins if one.group == group]
        others = [(beside[name], name, count) for (name, of), count in found.non_finite.items() if of == group]
        if not own and not others:
            continue
        colour, shape = _look(group, colours)
        said = [f"{value_words(one.least)} to {value_words(one.largest)}" for one in own]
        drawn.add_trace(
            go.Bar(
                x=[*(one.start + found.width / 2 for one in own), *(place for place, _, _ in others)],
                y=[*(one.values for one in own), *(count for _, _, count in others)],
                width=[*(found.width for _ in own), *(_room(found) / 2 for _ in others)],
                marker={"color": colour, "pattern": pattern | {"shape": shape}, "line": {"width": 0}},
                name=WORDS[group],
                showlegend=True,
                customdata=[*said, *(SIGNS[name] for _, name, _ in others)],
                hovertemplate=f"%{{customdata}}: %{{y:,}} {WORDS[group]}<extra></extra>",
            )
        )
    places = _ticks(found) | {place: SIGNS[name] for name, place in beside.items()}
    drawn.update_xaxes(tickvals=list(places), ticktext=list(places.values()), title="value", tickangle=0)
    drawn.update_yaxes(type="log", title="values", dtick=1, rangemode="tozero", range=[-0.3, _highest(found)])
    drawn.update_layout(barmode="overlay", bargap=0, height=HEIGHT, margin={"t": 34}, dragmode=False)
    return drawn


def _look(group: Group, colours: Palette) -> tuple[str, str]:
    return {"clean": (colours.copy, ""), "damaged": (colours.cut, "x"), "purpose": (colours.neutral, "/")}[group]


def _highest(found: Distribution) -> float:
    counts = [*(one.values for one in found.bins), *found.non_finite.values()]
    return math.log10(max(counts, default=1)) + 0.3


def _span(found: Distribution) -> tuple[float, float]:
    starts = [one.start for one in found.bins]
    return (min(starts), max(starts) + found.width) if starts else (0.0, 1.0)


def _room(found: Distribution) -> float:
    low, high = _span(found)
    return max((high - low) * 0.07, found.width)


def _beside(found: Distribution) -> dict[str, float]:
    """Places of what is not finite, right of all numbers."""
    names = [name for name in NON_FINITE if any(own == name for own, _ in found.non_finite)]
    return {name: _span(found)[1] + _room(found) * (place + 1) for place, name in enumerate(names)}


def _ticks(found: Distribution) -> dict[float, str]:
    """Round numbers that leave room for one another; zero first."""
    low, high = _span(found)
    apart = LEAST_APART * (high - low)
    kept: dict[float, str] = {}
    for value in sorted((sign * one for one in _TICKS for sign in (1, -1)), key=abs):
        place = scaled(value)
        if low <= place <= high and all(abs(place - other) >= apart for other in kept):
            kept[place] = f"{value:g}".replace("-", "−").replace("e+", "e")
    return kept
