"""The map's figures: bars of tokens, cells of values, what letters and colours mean, and all of it in words."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

from engine.logits.flags import MEANING, names
from engine.logits.windows import KINDS, NOT_LOGGED, Kind, TokenBin, Window
from pages._shared.theme import Palette, ink_on, palette

LETTERS: dict[Kind, str] = {
    "none": "",
    "non_finite": "N",
    "pointer": "P",
    "denormal": "D",
    "outlier": "O",
    "constant": "C",
    "repeated": "R",
    "zero": "0",
    "purpose": "m",
}
WORDS: dict[Kind, str] = {
    "none": "nothing wrong",
    "non_finite": "not finite",
    "pointer": "pointer",
    "denormal": "denormal",
    "outlier": "outlier",
    "constant": "constant",
    "repeated": "repeated",
    "zero": "zero",
    "purpose": "on purpose",
}
ON_PURPOSE = "a mask, or a row of the vocabulary without a token"
CELL_PX, LEAST_PX, MOST_PX = 20, 130, 1_100
MOST_LETTERED = 60
"""Tokens side by side that leave room for a letter each."""
MOST_TICKS = 48
OVERVIEW_PX = 120
HOVER_CHARS = 64


def colour_of(kind: Kind, colours: Palette) -> str:
    return {
        "none": colours.surface,
        "non_finite": colours.series[5],
        "pointer": colours.junk,
        "denormal": colours.series[7],
        "outlier": colours.cut,
        "constant": colours.exact,
        "repeated": colours.free,
        "zero": colours.copy,
        "purpose": colours.neutral,
    }[kind]


def overview(bins: Sequence[TokenBin], first: int, last: int) -> go.Figure:
    """Damaged entries by token, or those flagged on purpose where none is; what the window shows is framed."""
    colours = palette()
    has_damage = any(one.damaged for one in bins)
    name = "damaged" if has_damage else "flagged on purpose"
    counts = [one.damaged if has_damage else one.flagged for one in bins]
    figure = go.Figure(
        go.Bar(
            x=[(one.first + one.last) / 2 for one in bins],
            y=counts,
            width=[one.last - one.first + 1 for one in bins],
            marker={"color": colours.cut if has_damage else colours.neutral, "line": {"width": 0}},
            customdata=[[one.first, one.last, one.entries] for one in bins],
            hovertemplate="tokens %{customdata[0]:,} to %{customdata[1]:,}<br>"
            f"%{{y:,}} of %{{customdata[2]:,}} entries {name}<extra></extra>",
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
        )
    )
    figure.add_vrect(x0=first - 0.5, x1=last + 0.5, line={"width": 2, "color": colours.text}, fillcolor="rgba(0,0,0,0)")
    figure.update_yaxes(title="entries", nticks=3, range=[0, 1.1 * max([1, *counts])])
    figure.update_xaxes(title="token", showgrid=False)
    figure.update_layout(bargap=0, height=OVERVIEW_PX, margin={"t": 6}, dragmode=False, hovermode="x")
    return figure


def cells(found: Window) -> go.Figure:
    """Tokens to the right, positions downwards."""
    colours, tokens = palette(), found.map.tokens
    fills = [colour_of(kind, colours) for kind in KINDS]
    scale = [(end / len(KINDS), fill) for place, fill in enumerate(fills) for end in (place, place + 1)]
    letters = np.array(
        [f'<span style="color:{ink_on(fill)}">{LETTERS[kind]}</span>' for kind, fill in zip(KINDS, fills, strict=True)]
    )
    is_lettered = len(tokens) <= MOST_LETTERED
    kinds = found.kinds.T
    figure = go.Figure(
        go.Heatmap(
            z=np.where(kinds == NOT_LOGGED, np.nan, kinds),
            zmin=-0.5,
            zmax=len(KINDS) - 0.5,
            colorscale=scale,
            showscale=False,
            xgap=1,
            ygap=1,
            text=np.where(kinds == NOT_LOGGED, "", letters[kinds]) if is_lettered else None,
            texttemplate="%{text}" if is_lettered else None,
            textfont={"size": 10},
            hovertext=_hovers(found),
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )
    figure.update_xaxes(title="token", **_ticks(tokens.tolist()), showgrid=False, zeroline=False)
    figure.update_yaxes(
        title="position", **_ticks(found.map.positions.tolist()), autorange="reversed", showgrid=False, zeroline=False
    )
    height = min(MOST_PX, max(LEAST_PX, CELL_PX * len(found.map.positions) + 60))
    figure.update_layout(height=height, margin={"t": 6}, dragmode=False)
    return figure


def legend(found: Window) -> str:
    """What is in this window, with how many values have it; the words are ours."""
    colours = palette()
    items = []
    for place, kind in enumerate(KINDS):
        count = int((found.kinds == place).sum())
        if count:
            meaning = ON_PURPOSE if kind == "purpose" else "" if kind == "none" else MEANING[kind]
            fill = colour_of(kind, colours)
            style = f"background:{fill};color:{ink_on(fill)}"
            items.append(
                f'<li title="{escape(meaning)}"><b style="{style}" aria-hidden="true">{LETTERS[kind] or "&nbsp;"}</b>'
                f"{WORDS[kind]} <small>{count:,}</small></li>"
            )
    return f"<ul class='flag-legend' aria-label='What the letters mean'>{''.join(items)}</ul>"


def alt(found: Window) -> str:
    """What a screen reader gets in place of the cells."""
    tokens, positions = found.map.tokens, found.map.positions
    counts = [
        f"{int((found.kinds == place).sum()):,} {WORDS[kind]}"
        for place, kind in enumerate(KINDS)
        if (found.kinds == place).any()
    ]
    return (
        f"Flags of tokens {tokens[0]} to {tokens[-1]} at positions {positions[0]} to {positions[-1]}: "
        f"{', '.join(counts)}."
    )


def rows(found: Window) -> list[dict[str, Any]]:
    """Flagged values of the window."""
    return [
        {
            "token": int(found.map.tokens[row]),
            "position": int(found.map.positions[column]),
            "value": float(found.map.values[row, column]),
            "flags": ", ".join(names(int(found.map.codes[row, column]))),
            "shown as": WORDS[KINDS[found.kinds[row, column]]],
            "reason": found.reasons[row, column],
        }
        for row, column in np.argwhere(found.map.codes > 0)
    ]


def value_words(value: float) -> str:
    """Four digits, or whole numbers up to a million."""
    said = f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return said.replace("-", "−").replace("e−", "e-").replace("inf", "infinity")


def _hovers(found: Window) -> list[list[str]]:
    tokens, positions = found.map.tokens, found.map.positions
    return [
        [_hover(found, row, column, f"token {tokens[row]:,}, position {positions[column]:,}")
         for row in range(len(tokens))]
        for column in range(len(positions))
    ]  # fmt: skip


def _hover(found: Window, row: int, column: int, where: str) -> str:
    kind = found.kinds[row, column]
    if kind == NOT_LOGGED:
        return f"{where}: not logged"
    said = f"{where}<br><b>{value_words(float(found.map.values[row, column]))}</b>"
    if kind == 0:
        return said
    flags = ", ".join(WORDS[flag] for flag in names(int(found.map.codes[row, column])))  # type: ignore[index]
    meant = f" ({ON_PURPOSE})" if KINDS[kind] == "purpose" else ""
    reason = "<br>".join(escape(line) for line in wrap(found.reasons[row, column], HOVER_CHARS))
    return f"{said} {flags}{meant}<br>{reason}"


def _ticks(values: Sequence[int]) -> dict[str, Any]:
    """Cells stand side by side, though their tokens or ids may not."""
    step = -(-len(values) // MOST_TICKS) * (1 if len(values) <= MOST_TICKS else 5)
    places = range(0, len(values), step)
    return {"tickvals": list(places), "ticktext": [str(values[place]) for place in places]}
