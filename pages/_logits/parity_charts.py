"""The charts of two logs: token by token, value against value, position by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from engine.errors import one_line
from engine.figures.words import counted, percent, significant
from engine.logits.parity import EntryAgreement, Parity
from engine.logits.parity_detail import ParityDetail, detail
from engine.store.store import Store
from pages._logits import parity_words as words
from pages._logits.logs import LogSelection
from pages._shared.charts.card import card, choice
from pages._shared.charts.chart import Axis, Chart, Marks, Note, Panel, RefLine, around, chart
from pages._shared.charts.text import safe
from pages._shared.theme import palette

AROUND: dict[str, Any] = {"height": 340, "top": 30, "more": {"dragmode": False}}
MOST_ENTRIES = 3_000
"""Entries that are drawn one by one; of more, the middle and the largest of each stretch of tokens."""
MOST_STRETCHES = 800
MOST_ROWS = 20_000
NAME = 40
TOKENS_HELP = """
An entry is what both engines logged for one token. Flagged values are left out. The dashed line is what the coarser of
the two precisions explains; the first entry above it is where to look. If each engine sampled its
own text, the texts differ after the first different token, and later entries do not compare the engines.
"""
SCATTER_HELP = """
Each point is one value of both logs; on the line they are the same. Flagged pairs are crosses, drawn at the edge where
they are outside the axes. Of many pairs, an even sample is drawn.
"""
POSITIONS_HELP = """
A position is a value's place in its row: for logits, the token's id. Means are over entries, without flagged values.
A position that is flagged in many entries is damage in the log; one that only differs more is the engines' difference.
"""
Real = NDArray[np.float64]


def show(store: Store, chosen: LogSelection, parity: Parity, checkpoint: str) -> None:
    """Draw all three for one checkpoint."""
    assert chosen.test is not None
    places = [place for place in parity.places if place.checkpoint == checkpoint]
    details = detail(store, chosen.control, chosen.test, checkpoint)
    with st.container(key="parity-charts"):
        _tokens(chosen, parity, places)
        left, right = st.columns(2, gap="small")
        with left:
            _scatter(chosen, details)
        with right:
            _positions(chosen, details)


# --- token by token -----------------------------------------------------------------------------------------------


@st.fragment
def _tokens(chosen: LogSelection, parity: Parity, places: Sequence[EntryAgreement]) -> None:
    with card("parity-tokens", "Where do they diverge?", TOKENS_HELP) as frame:
        name = choice("Figure", list(words.FIGURES), "parity_by", words.FIGURES)
        said = words.tokens_answer(parity, places, name)
        frame.tell(said)
        columns = {
            name: st.column_config.NumberColumn(name, format="%.4g") for name in ("relative", "largest difference")
        }
        frame.data(lambda: words.place_rows(places[:MOST_ROWS]), columns)
        known = [(place, value) for place in places if (value := words.figure_of(place, name)) is not None]
        if any(value > 0 for _, value in known):
            # Zeros are drawn a power of ten below the least: an axis of powers has no place for them.
            floor = 10.0 ** (np.floor(np.log10(min(value for _, value in known if value > 0))) - 1)
            names = [one_line(chosen.name(log_id)) for log_id in chosen.ids]
            frame.draw(tokens_chart(parity, known, name, floor, f"{' against '.join(names)}. {said}"))
            frame.leave_out(*_tokens_notes(parity, places, known, floor))


def tokens_chart(
    parity: Parity, known: Sequence[tuple[EntryAgreement, float]], name: str, floor: float, alt: str = ""
) -> Chart:
    colours = palette()
    token = np.array([place.token_idx for place, _ in known], dtype=np.int64)
    value = np.maximum(np.array([value for _, value in known]), floor)
    layers, is_relative = [], name == "relative"
    if len(known) <= MOST_ENTRIES:
        points = [
            {"x": x, "y": y, "words": f"{words.where(place, has_texts=True)}: {figure:.3g}"}
            for x, y, (place, figure) in zip(token.tolist(), value.tolist(), known, strict=True)
        ]
        layers.append(
            Marks(kind="points", rows=points, name="an entry", colour=colours.series[0], size=5, opacity=0.45,
                  hover=lambda row: row["words"])
        )  # fmt: skip
    if len(np.unique(token)) < len(token) or len(known) > MOST_ENTRIES:
        at, middle, largest = stretches(token, value)
        for what, ys, dash, width in (("largest", largest, "dot", 1), ("middle", middle, "solid", 1.5)):
            line = [{"x": x, "y": y} for x, y in zip(at.tolist(), ys.tolist(), strict=True)]
            layers.append(
                Marks(kind="lines", rows=line, name=what, colour=colours.text, dash=dash, thickness=width,
                      has_points=False)
            )  # fmt: skip
    first = words.first_divergence([place for place, _ in known], parity.tolerance) if is_relative else None
    if first is not None:
        ring = [{"x": first.token_idx, "y": first.relative}]
        layers.append(
            Marks(kind="points", rows=ring, name="the first above it", symbol="diamond-open", size=15,
                  colour=colours.cut, outline=colours.cut, outline_width=3)
        )  # fmt: skip
    limit = Note(
        1,
        float(np.log10(parity.tolerance)),
        "what their precision explains",
        {"xref": "paper", "xanchor": "right", "yanchor": "bottom", "font": {"color": colours.muted, "size": 12}},
    )
    ends = [*value.tolist(), *([parity.tolerance] if is_relative else [])]
    return chart(
        *layers,
        x=Axis(title="token"),
        y=_powers(words.FIGURES[name], ends),
        lines=[RefLine(None, parity.tolerance, None, parity.tolerance)] if is_relative else [],
        notes=[limit] if is_relative else [],
        alt=alt,
        **AROUND,
    )


def _powers(title: str, values: Sequence[float]) -> Axis:
    """An axis of powers of ten that has at least two of them."""
    known = [value for value in values if value > 0] or [1.0]
    low, high = np.floor(np.log10(min(known))), np.ceil(np.log10(max(known)) + 0.05)
    return Axis(
        title=title,
        is_log=True,
        range=[low - 0.05, max(high, low + 1) + 0.05],
        more={"exponentformat": "power", "dtick": 1 if high - low < 9 else 4},
    )


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
    parity: Parity, places: Sequence[EntryAgreement], known: Sequence[tuple[EntryAgreement, float]], floor: float
) -> list[str]:
    zeros = sum(value == 0 for _, value in known)
    return [
        f"{counted(zeros, 'entry is', 'entries are')} equal bit for bit, and drawn at {floor:.0e}." if zeros else "",
        f"Without a value to compare: {counted(len(places) - len(known), 'entry', 'entries')}."
        if len(known) < len(places)
        else "",
        f"Told of the first {len(parity.places):,} entries of {parity.entries:,}."
        if len(parity.places) < parity.entries
        else "",
    ]


# --- value against value ------------------------------------------------------------------------------------------


def _scatter(chosen: LogSelection, details: ParityDetail) -> None:
    with card("parity-values", "Do the values agree?", SCATTER_HELP) as frame:
        frame.tell(words.scatter_answer(details))
        frame.data(lambda: words.point_rows(details))
        if not details.points.is_flagged.all():
            frame.draw(scatter_chart(chosen, details))
        off = int(details.points.is_flagged.sum())
        sound = len(details.points) - off
        frame.leave_out(
            f"{sound:,} of {details.sound:,} pairs are drawn." if sound < details.sound else "",
            f"Of {details.flagged:,} flagged pairs {off:,} are drawn; {details.not_finite:,} have no finite value."
            if off < details.flagged
            else "",
        )


def scatter_chart(chosen: LogSelection, details: ParityDetail) -> Chart:
    colours, points = palette(), details.points
    sound = ~points.is_flagged
    low, high = around(
        float(min(points.control[sound].min(), points.test[sound].min())),
        float(max(points.control[sound].max(), points.test[sound].max())),
    )
    columns = (details.token_idx, points.position, points.control, points.test, points.is_flagged)
    rows = [
        {
            "group": "flagged" if is_flagged else "without a flag",
            "x": min(max(a, low), high),
            "y": min(max(b, low), high),
            "place": f"token {token:,}, position {position:,}",
            "values": f"A {significant(a, 7)}, B {significant(b, 7)}",
        }
        for token, position, a, b, is_flagged in zip(*(column.tolist() for column in columns), strict=True)
    ]
    layers = [
        Marks(
            kind="points",
            rows=[row for row in rows if row["group"] == name],
            name=name,
            symbol=symbol,
            size=size,
            colour=colour,
            opacity=0.6,
            hover=lambda row: (row["place"], row["values"]),
        )
        for name, symbol, size, colour in (
            ("without a flag", "circle", 5, colours.series[0]),
            ("flagged", "x", 8, colours.cut),
        )
    ]
    x, y = (Axis(title=safe(chosen.name(log_id), NAME), range=[low, high]) for log_id in chosen.ids)
    return chart(
        *layers,
        x=x,
        y=y,
        lines=[RefLine(low, low, high, high)],
        has_legend=bool((~sound).any()),
        alt=words.scatter_answer(details),
        **AROUND,
    )


# --- position by position -----------------------------------------------------------------------------------------


def _positions(chosen: LogSelection, details: ParityDetail) -> None:
    with card("parity-positions", "Which positions differ?", POSITIONS_HELP) as frame:
        frame.tell(words.positions_answer(details))
        frame.data(lambda: [asdict(position) for position in details.positions])
        frame.draw(positions_chart(details))
        if details.positions_left_out:
            frame.leave_out(f"Left out: {counted(details.positions_left_out, 'position')} with smaller differences.")


def positions_chart(details: ParityDetail) -> Chart:
    """Differences above, the share of flagged pairs below, on one axis of positions."""
    colours = palette()
    ends = [place.position for place in details.positions]
    along = Axis(title="position", range=[min(ends) - 0.5, max(ends) + 0.5])
    sizes = [size for place in details.positions for size in (place.mean_difference, place.max_difference) if size]
    differences = [
        Marks(
            kind="points",
            rows=[{"x": place.position, "y": getattr(place, column) or None} for place in details.positions],
            name=name,
            symbol=symbol,
            size=8,
            colour=colour,
            hover=lambda row, name=name: f"position {row['x']:,}: {name} {row['y'] or 0:.3g}",  # type: ignore[misc]
        )
        for name, column, symbol, colour in (
            ("mean difference", "mean_difference", "circle", colours.series[0]),
            ("largest", "max_difference", "triangle-up", colours.muted),
        )
    ]
    y = _powers("difference", sizes)
    panels = [Panel(layers=differences, x=along, y=y, height=0.64)]
    if any(place.flagged for place in details.positions):
        shares = [
            {"x": place.position, "y": place.flagged / (place.flagged + place.values)} for place in details.positions
        ]
        flagged = Marks(
            kind="bars",
            rows=shares,
            name="flagged",
            colour=colours.cut,
            pattern="/",
            opacity=0.8,
            is_hatched=False,
            hover=lambda row: f"position {row['x']:,}: {percent(row['y'])} flagged",
        )
        below = Axis(title="flagged", is_share=True, from_zero=True)
        panels = [
            Panel(layers=differences, x=replace(along, title=""), y=y, height=0.64),
            Panel(layers=[flagged], x=along, y=below, height=0.24),
        ]
    return Chart(panels=panels, shared_x=True, spacing=(0, 0.12), alt=words.positions_answer(details), **AROUND)
