"""How a log's values are distributed, damaged ones apart, on a scale that holds 5 and 1e38 alike."""

from __future__ import annotations

import math
from typing import Any

import streamlit as st

from engine.logits import windows
from engine.logits.distribution import GROUPS, NON_FINITE, Distribution, Group, distribution, scaled
from engine.store.entries import Entry
from engine.store.store import Store
from pages._logits.health_map_figure import value_words
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, chart
from pages._shared.theme import palette

QUESTION = "How are the values distributed?"
HELP = """
Counts of values in bins. The axis is even around zero and logarithmic further out, on both sides; counts are on a
logarithmic axis, so that a handful shows beside a million. What is not finite stands in bars of its own at the right.
"""
WORDS: dict[Group, str] = {"clean": "nothing wrong", "damaged": "damaged", "purpose": "on purpose"}
ALL = "all"
SIGNS = {"-inf": "−∞", "inf": "+∞", "nan": "NaN"}
_TICKS = (0, 1, 3, 10, 30, 100, 1e3, 1e6, 1e10, 1e15, 1e20, 1e25, 1e30, 1e35, 1e38)
LEAST_APART = 0.13
"""Of the axis, between two ticks that can be read."""


@st.fragment
def show(store: Store, log: Entry) -> None:
    with card("logit-values", QUESTION, HELP) as frame:
        checkpoints = list(dict.fromkeys(text.checkpoint for text in windows.texts(store, log)))
        wanted = ""
        if len(checkpoints) > 1:
            picked = st.selectbox("Checkpoint", [ALL, *checkpoints], key="checkpoint", bind="query-params", width=240)
            wanted = "" if picked == ALL else picked
        counts = distribution(store, log, wanted)
        frame.tell(sentence(counts))
        frame.data(lambda: rows(counts))
        frame.draw(distribution_chart(counts))


def sentence(counts: Distribution) -> str:
    parts = []
    for group in GROUPS:
        total = counts.total(group)
        if total:
            values = "1 value" if total == 1 else f"{total:,} values"
            are = {"clean": "without a flag", "damaged": "damaged", "purpose": "masked or padded on purpose"}[group]
            parts.append(f"{values} {are}{_ends(counts, group)}")
    return f"{'; '.join(parts)}." if parts else "No values."


def _ends(counts: Distribution, group: Group) -> str:
    ends = counts.ends(group)
    others = sum(count for (_, own), count in counts.non_finite.items() if own == group)
    said = ""
    if ends is not None:
        low, high = map(value_words, ends)
        said = f", {low} to {high}" if low != high else f", {low}"
    return said + (f", {others:,} of them not finite" if others else "")


def rows(counts: Distribution) -> list[dict[str, Any]]:
    finite = [
        {"values are": WORDS[bin_.group], "from": bin_.least, "to": bin_.largest, "values": bin_.values}
        for bin_ in counts.bins
    ]
    others = [
        {"values are": WORDS[group], "from": float(name), "to": float(name), "values": count}
        for (name, group), count in counts.non_finite.items()
    ]
    return finite + others


def distribution_chart(counts: Distribution) -> Chart:
    colours = palette()
    looks = {"clean": (colours.copy, ""), "damaged": (colours.cut, "x"), "purpose": (colours.neutral, "/")}
    names = [name for name in NON_FINITE if any(own == name for own, _ in counts.non_finite)]
    # What is not finite stands right of all numbers.
    beside = {name: _span(counts)[1] + _room(counts) * (place + 1) for place, name in enumerate(names)}
    bars: list[dict[str, Any]] = [
        {
            "group": bin_.group,
            "place": bin_.start + counts.width / 2,
            "values": bin_.values,
            "width": counts.width,
            "bin": f"{value_words(bin_.least)} to {value_words(bin_.largest)}",
        }
        for bin_ in counts.bins
    ]
    bars += [
        {"group": group, "place": beside[name], "values": count, "width": _room(counts) / 2, "bin": SIGNS[name]}
        for (name, group), count in counts.non_finite.items()
    ]
    layers = [
        Marks(
            kind="bars",
            rows=[bar for bar in bars if bar["group"] == group],
            x="place",
            y="values",
            name=WORDS[group],
            colour=looks[group][0],
            pattern=looks[group][1],
            is_hatched=False,
            outline_width=0,
            hover=lambda bar: f"{bar['bin']}: {bar['values']:,} {WORDS[bar['group']]}",
        )
        for group in GROUPS
    ]
    ticks = _ticks(counts) | {place: SIGNS[name] for name, place in beside.items()}
    highest = math.log10(max((bar["values"] for bar in bars), default=1)) + 0.3
    return chart(
        *layers,
        x=Axis(title="value", ticks=ticks, more={"tickangle": 0}),
        y=Axis(title="values", is_log=True, from_zero=True, range=[-0.3, highest], more={"dtick": 1}),
        height=330,
        top=34,
        more={"bargap": 0, "dragmode": False},
        alt=sentence(counts),
    )


def _span(counts: Distribution) -> tuple[float, float]:
    starts = [bin_.start for bin_ in counts.bins]
    return (min(starts), max(starts) + counts.width) if starts else (0.0, 1.0)


def _room(counts: Distribution) -> float:
    low, high = _span(counts)
    return max((high - low) * 0.07, counts.width)


def _ticks(counts: Distribution) -> dict[float, str]:
    """Round numbers that leave room for one another; zero first."""
    low, high = _span(counts)
    apart = LEAST_APART * (high - low)
    kept: dict[float, str] = {}
    for value in sorted((sign * tick for tick in _TICKS for sign in (1, -1)), key=abs):
        place = scaled(value)
        if low <= place <= high and all(abs(place - other) >= apart for other in kept):
            kept[place] = f"{value:g}".replace("-", "−").replace("e+", "e")
    return kept
