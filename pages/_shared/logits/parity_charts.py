"""The charts of two logs: token by token, value against value, position by position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray

from engine.errors import one_line
from engine.logits.parity import Parity, Place
from engine.logits.parity_detail import Detail, detail
from engine.store.store import Store
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import drawn
from pages._shared.logits import parity_words as words
from pages._shared.logits.state import Chosen
from pages._shared.theme import palette

HEIGHT = 340
MOST_ENTRIES = 3_000
"""Entries that are drawn one by one; of more, the middle and the largest of each stretch of tokens."""
MOST_STRETCHES = 800
MOST_ROWS = 20_000
NAME = 40
TOKENS_HELP = """
An entry is what both engines logged for one token. Flagged values are left out. The dashed line is what the coarser of
the two precisions explains; the first entry above it is where to look. Engines that write freely read different texts
behind their first different token: what comes after it does not compare engines.
"""
SCATTER_HELP = """
Each point is one value of both logs; on the line they are the same. Flagged pairs are crosses, drawn at the rim where
they lie beyond it. Of many pairs, an even choice is drawn.
"""
POSITIONS_HELP = """
A position is a value's place in its row: for logits, the token's id. Means are over entries, without flagged values.
A position that is flagged again and again is damage of the log; one that merely differs more is the engines'.
"""
Real = NDArray[np.float64]


def show(store: Store, chosen: Chosen, parity: Parity, checkpoint: str) -> None:
    """Draw all three for one checkpoint."""
    assert chosen.beside is not None
    st.html(f"<style>{_css()}</style>")
    places = [one for one in parity.places if one.checkpoint == checkpoint]
    found = detail(store, chosen.log, chosen.beside, checkpoint)
    with st.container(key="parity-charts"):
        _tokens(chosen, parity, places)
        left, right = st.columns(2, gap="small")
        with left:
            _scatter(chosen, found)
        with right:
            _positions(chosen, found)


@cache
def _css() -> str:
    return Path(__file__).with_name("parity.css").read_text(encoding="utf-8")


# --- token by token -----------------------------------------------------------------------------------------------


@st.fragment
def _tokens(chosen: Chosen, parity: Parity, places: Sequence[Place]) -> None:
    with card("parity-tokens", "Where do they part?", TOKENS_HELP) as here:
        name = st.segmented_control(
            "Figure",
            list(words.FIGURES),
            default="relative",
            required=True,
            format_func=words.FIGURES.__getitem__,
            key="parity_by",
            bind="query-params",
            label_visibility="collapsed",
        )
        name = name or "relative"
        said = words.tokens_answer(parity, places, name)
        here.tell(said)
        here.data(lambda: words.place_rows(places[:MOST_ROWS]), _FIGURES)
        known = [(one, value) for one in places if (value := words.figure_of(one, name)) is not None]
        if any(value > 0 for _, value in known):
            floor = _floor([value for _, value in known])
            names = [one_line(chosen.name(one)) for one in chosen.ids]
            here.draw(tokens_figure(parity, known, name, floor), alt=f"{' against '.join(names)}. {said}")
            here.leave_out(*_tokens_notes(parity, places, known, floor))


_FIGURES = {name: st.column_config.NumberColumn(name, format="%.4g") for name in ("relative", "largest difference")}


def _floor(values: Sequence[float]) -> float:
    """Where zeros are drawn, since an axis of powers of ten has no place for them."""
    return 10.0 ** (np.floor(np.log10(min(value for value in values if value > 0))) - 1)


def tokens_figure(parity: Parity, known: Sequence[tuple[Place, float]], name: str, floor: float) -> go.Figure:
    colours = palette()
    token = np.array([one.token_idx for one, _ in known], dtype=np.int64)
    value = np.maximum(np.array([value for _, value in known]), floor)
    figure = go.Figure()
    if len(known) <= MOST_ENTRIES:
        text = [f"{words.where(one, has_texts=True)}: {value:.3g}" for one, value in known]
        marker = {"color": colours.series[0], "size": 5, "opacity": 0.45}
        figure.add_trace(
            go.Scattergl(
                x=token, y=value, mode="markers", marker=marker, name="an entry", text=text,
                hovertemplate="%{text}<extra></extra>",
            )
        )  # fmt: skip
    if len(np.unique(token)) < len(token) or len(known) > MOST_ENTRIES:
        at, middle, largest = stretches(token, value)
        for what, ys, dash in (("largest", largest, "dot"), ("middle", middle, "solid")):
            line = {"color": colours.text, "width": 1.5 if what == "middle" else 1, "dash": dash}
            figure.add_trace(go.Scattergl(x=at, y=ys, mode="lines", line=line, name=what, hoverinfo="skip"))
    if name == "relative":
        _tolerance(figure, parity, known)
    figure.update_xaxes(title="token")
    ends = [*value.tolist(), *([parity.tolerance] if name == "relative" else [])]
    figure.update_yaxes(title=words.FIGURES[name], **_powers(ends))
    figure.update_layout(height=HEIGHT, margin={"t": 30}, dragmode=False)
    return figure


def _powers(values: Sequence[float]) -> dict[str, Any]:
    """An axis of powers of ten that has at least two of them."""
    known = [value for value in values if value > 0] or [1.0]
    low, high = np.floor(np.log10(min(known))), np.ceil(np.log10(max(known)) + 0.05)
    return {
        "type": "log",
        "exponentformat": "power",
        "dtick": 1 if high - low < 9 else 4,
        "range": [low - 0.05, max(high, low + 1) + 0.05],
    }


def _tolerance(figure: go.Figure, parity: Parity, known: Sequence[tuple[Place, float]]) -> None:
    """What precision explains, and the first entry that it does not."""
    colours = palette()
    figure.add_hline(y=parity.tolerance, line={"color": colours.muted, "width": 1.5, "dash": "dash"})
    figure.add_annotation(
        x=1, xref="paper", xanchor="right", y=float(np.log10(parity.tolerance)), yanchor="bottom", showarrow=False,
        text="what their precision explains", font={"color": colours.muted, "size": 12},
    )  # fmt: skip
    first = words.parts_at([one for one, _ in known], parity.tolerance)
    if first is not None:
        marker = {"symbol": "diamond-open", "size": 15, "color": colours.cut, "line": {"width": 3}}
        figure.add_trace(
            go.Scatter(
                x=[first.token_idx], y=[first.relative], mode="markers", marker=marker, name="the first above it",
                hoverinfo="skip",
            )
        )  # fmt: skip


def stretches(token: NDArray[np.int64], value: Real) -> tuple[NDArray[np.int64], Real, Real]:
    """The middle and the largest value of each token, or of each stretch of as many tokens as it takes."""
    width = 1 + int(token.max() - token.min()) // MOST_STRETCHES
    group = (token - token.min()) // width
    order = np.lexsort((value, group))
    group, value = group[order], value[order]
    at, starts, counts = np.unique(group, return_index=True, return_counts=True)
    ends = starts + counts - 1
    middle = (value[starts + (counts - 1) // 2] + value[starts + counts // 2]) / 2
    return at * width + token.min(), middle, value[ends]


def _tokens_notes(
    parity: Parity, places: Sequence[Place], known: Sequence[tuple[Place, float]], floor: float
) -> list[str]:
    zeros = sum(value == 0 for _, value in known)
    return [
        f"{words.plural(zeros, 'entry is', 'entries are')} equal bit for bit, and drawn at {floor:.0e}."
        if zeros
        else "",
        f"Without a value to compare: {words.plural(len(places) - len(known), 'entry', 'entries')}."
        if len(known) < len(places)
        else "",
        f"Told of the first {len(parity.places):,} entries of {parity.entries:,}."
        if len(parity.places) < parity.entries
        else "",
    ]


# --- value against value ------------------------------------------------------------------------------------------


def _scatter(chosen: Chosen, found: Detail) -> None:
    with card("parity-values", "Do the values agree?", SCATTER_HELP) as here:
        said = words.scatter_answer(found)
        here.tell(said)
        here.data(lambda: words.point_rows(found))
        if (~found.points.is_flagged).any():
            here.draw(scatter_figure(chosen, found), alt=said)
        here.leave_out(*_scatter_notes(found))


def scatter_figure(chosen: Chosen, found: Detail) -> go.Figure:
    colours, points = palette(), found.points
    sound = ~points.is_flagged
    low = float(min(points.control[sound].min(), points.test[sound].min()))
    high = float(max(points.control[sound].max(), points.test[sound].max()))
    room = 0.06 * ((high - low) or 1.0)
    low, high = low - room, high + room
    figure = go.Figure()
    for name, which, symbol, colour in (
        ("without a flag", sound, "circle", colours.series[0]),
        ("flagged", ~sound, "x", colours.cut),
    ):
        if which.any():
            figure.add_trace(
                go.Scattergl(
                    x=np.clip(points.control[which], low, high),
                    y=np.clip(points.test[which], low, high),
                    mode="markers",
                    name=name,
                    marker={"symbol": symbol, "color": colour, "size": 5 if symbol == "circle" else 8, "opacity": 0.6},
                    text=_hovers(found, which),
                    hovertemplate="%{text}<extra></extra>",
                )
            )
    line = {"color": colours.muted, "width": 1.5, "dash": "dash"}
    figure.add_shape(type="line", x0=low, y0=low, x1=high, y1=high, line=line, layer="below")
    for update, log_id in ((figure.update_xaxes, chosen.ids[0]), (figure.update_yaxes, chosen.ids[1])):
        update(title=drawn(chosen.name(log_id), NAME), range=[low, high])
    figure.update_layout(height=HEIGHT, margin={"t": 30}, dragmode=False, showlegend=bool((~sound).any()))
    return figure


def _hovers(found: Detail, which: NDArray[np.bool_]) -> list[str]:
    points = found.points
    columns = (points.token_idx[which], points.position[which], points.control[which], points.test[which])
    rows = zip(*(one.tolist() for one in columns), strict=True)
    return [f"token {token:,}, position {position:,}<br>A {a:.7g}, B {b:.7g}" for token, position, a, b in rows]


def _scatter_notes(found: Detail) -> list[str]:
    drawn_, off = int((~found.points.is_flagged).sum()), int(found.points.is_flagged.sum())
    return [
        f"Drawn are {drawn_:,} of {found.sound:,} pairs." if drawn_ < found.sound else "",
        f"Of {found.flagged:,} flagged pairs {off:,} are drawn; {found.not_finite:,} have no finite value."
        if off < found.flagged
        else "",
    ]


# --- position by position -----------------------------------------------------------------------------------------


def _positions(chosen: Chosen, found: Detail) -> None:
    with card("parity-positions", "Which positions differ?", POSITIONS_HELP) as here:
        said = words.positions_answer(found)
        here.tell(said)
        here.data(found.sheet)
        here.draw(positions_figure(found), alt=said)
        if found.positions_left_out:
            here.leave_out(f"Left out: {words.plural(found.positions_left_out, 'position')} with smaller differences.")


def positions_figure(found: Detail) -> go.Figure:
    """Differences above, the share of flagged pairs below, on one axis of positions."""
    colours = palette()
    position = [one.position for one in found.positions]
    figure = go.Figure()
    for name, key, symbol, colour in (
        ("mean difference", "mean_difference", "circle", colours.series[0]),
        ("largest", "max_difference", "triangle-up", colours.muted),
    ):
        figure.add_trace(
            go.Scatter(
                x=position,
                y=[getattr(one, key) or None for one in found.positions],
                mode="markers",
                name=name,
                marker={"symbol": symbol, "color": colour, "size": 8},
                hovertemplate=f"position %{{x:,}}: {name} %{{y:.3g}}<extra></extra>",
            )
        )
    if any(one.flagged for one in found.positions):
        shares = [one.flagged / (one.flagged + one.values) for one in found.positions]
        figure.add_trace(
            go.Bar(
                x=position,
                y=shares,
                yaxis="y2",
                name="flagged",
                marker={"color": colours.cut, "pattern": {"shape": "/"}, "opacity": 0.8},
                hovertemplate="position %{x:,}: %{y:.1%} flagged<extra></extra>",
            )
        )
        figure.update_layout(yaxis={"domain": [0.36, 1]}, xaxis={"anchor": "y2"})
        figure.update_layout(
            yaxis2={"domain": [0, 0.24], "tickformat": ".0%", "rangemode": "tozero", "title": "flagged"}
        )
    figure.update_xaxes(title="position", range=[min(position) - 0.5, max(position) + 0.5])
    sizes = [size for one in found.positions for size in (one.mean_difference, one.max_difference) if size]
    figure.update_layout(yaxis={"title": "difference", **_powers(sizes)})
    figure.update_layout(height=HEIGHT, margin={"t": 30}, dragmode=False)
    return figure
