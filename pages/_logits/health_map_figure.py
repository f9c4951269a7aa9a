"""The map's figures: bars of tokens, cells of values, what letters and colours mean, and all of it in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from engine.logits.flags import MEANING, names
from engine.logits.windows import KINDS, NOT_LOGGED, FlagWindow, Kind, TokenBin
from pages._shared.charts.chart import Axis, Chart, HeatmapCells, Marks, chart
from pages._shared.theme import Palette, ink_on, palette


class KindLook(NamedTuple):
    letter: str
    words: str
    colour: Callable[[Palette], str]


LOOKS: dict[Kind, KindLook] = {
    "none": KindLook("", "nothing wrong", lambda colours: colours.surface),
    "non_finite": KindLook("N", "not finite", lambda colours: colours.series[5]),
    "pointer": KindLook("P", "pointer", lambda colours: colours.junk),
    "denormal": KindLook("D", "denormal", lambda colours: colours.series[7]),
    "outlier": KindLook("O", "outlier", lambda colours: colours.cut),
    "constant": KindLook("C", "constant", lambda colours: colours.exact),
    "repeated": KindLook("R", "repeated", lambda colours: colours.free),
    "zero": KindLook("0", "zero", lambda colours: colours.copy),
    "purpose": KindLook("m", "on purpose", lambda colours: colours.neutral),
}
ON_PURPOSE = "a mask, or a row of the vocabulary without a token"
CELL_PX, LEAST_PX, MOST_PX = 20, 130, 1_100
MOST_LETTERED = 60
"""Tokens side by side that leave room for a letter each."""
MOST_TICKS = 48
OVERVIEW_PX = 120
HOVER_CHARS = 64


def overview(bins: Sequence[TokenBin], first: int, last: int, alt: str) -> Chart:
    """Damaged entries by token, or those flagged on purpose where none is; what the window shows is framed."""
    colours = palette()
    has_damage = any(bin_.damaged for bin_ in bins)
    name = "damaged" if has_damage else "flagged on purpose"
    bars: list[dict[str, Any]] = [
        {
            "token": (bin_.first + bin_.last) / 2,
            "count": bin_.damaged if has_damage else bin_.flagged,
            "width": bin_.last - bin_.first + 1,
            "bin": bin_,
        }
        for bin_ in bins
    ]
    most = 1.1 * max([1, *(bar["count"] for bar in bars)])
    marks = Marks(
        kind="bars",
        rows=bars,
        x="token",
        y="count",
        colour=colours.cut if has_damage else colours.neutral,
        outline_width=0,
        hover=lambda bar: (
            f"tokens {bar['bin'].first:,} to {bar['bin'].last:,}",
            f"{bar['count']:,} of {bar['bin'].entries:,} entries {name}",
        ),
    )
    line = {"width": 2, "color": colours.text}
    frame = {"type": "rect", "x0": first - 0.5, "x1": last + 0.5, "y0": 0, "y1": 1, "yref": "y domain", "line": line}
    return chart(
        marks,
        x=Axis(title="token", has_grid=False),
        y=Axis(title="entries", range=[0, most], more={"nticks": 3}),
        height=OVERVIEW_PX,
        top=6,
        more={"bargap": 0, "dragmode": False, "hovermode": "x", "shapes": [frame]},
        alt=alt,
    )


def cells(window: FlagWindow) -> Chart:
    """Tokens to the right, positions downwards."""
    colours, tokens, positions = palette(), window.tokens, window.positions
    looks = [LOOKS[kind] for kind in KINDS]
    fills = [look.colour(colours) for look in looks]
    letters = np.array(
        [f'<span style="color:{ink_on(fill)}">{look.letter}</span>' for look, fill in zip(looks, fills, strict=True)]
    )
    kinds = window.kinds.T
    grid = HeatmapCells(
        x=None,
        y=None,
        values=np.where(kinds == NOT_LOGGED, np.nan, kinds),
        low=-0.5,
        high=len(KINDS) - 0.5,
        scale=[(end / len(KINDS), fill) for place, fill in enumerate(fills) for end in (place, place + 1)],
        text=np.where(kinds == NOT_LOGGED, "", letters[kinds]) if len(tokens) <= MOST_LETTERED else None,
        text_size=10,
        hover=[
            [
                _hover(window, row, column, f"token {tokens[row]:,}, position {positions[column]:,}")
                for row in range(len(tokens))
            ]
            for column in range(len(positions))
        ],
        gap=1,
    )
    return chart(
        grid,
        x=Axis(title="token", ticks=_ticks(tokens.tolist()), has_grid=False, more={"zeroline": False}),
        y=Axis(
            title="position",
            ticks=_ticks(positions.tolist()),
            has_grid=False,
            more={"zeroline": False, "autorange": "reversed"},
        ),
        height=min(MOST_PX, max(LEAST_PX, CELL_PX * len(positions) + 60)),
        top=6,
        more={"dragmode": False},
        alt=alt(window),
    )  # fmt: skip


def legend(window: FlagWindow) -> str:
    """What is in this window, with how many values have it; the words are ours."""
    colours, items = palette(), []
    for kind, count in _counts(window):
        meaning = ON_PURPOSE if kind == "purpose" else "" if kind == "none" else MEANING[kind]
        look, fill = LOOKS[kind], LOOKS[kind].colour(colours)
        style = f"background:{fill};color:{ink_on(fill)}"
        items.append(
            f'<li title="{escape(meaning)}"><b style="{style}" aria-hidden="true">{look.letter or "&nbsp;"}</b>'
            f"{look.words} <small>{count:,}</small></li>"
        )
    return f"<ul class='flag-legend' aria-label='What the letters mean'>{''.join(items)}</ul>"


def alt(window: FlagWindow) -> str:
    """What a screen reader gets in place of the cells."""
    tokens, positions = window.tokens, window.positions
    counts = ", ".join(f"{count:,} {LOOKS[kind].words}" for kind, count in _counts(window))
    return f"Flags of tokens {tokens[0]} to {tokens[-1]} at positions {positions[0]} to {positions[-1]}: {counts}."


def _counts(window: FlagWindow) -> list[tuple[Kind, int]]:
    """Kinds that are there, and how many values have them."""
    counts = np.bincount(window.kinds[window.kinds != NOT_LOGGED], minlength=len(KINDS)).tolist()
    return [(kind, count) for kind, count in zip(KINDS, counts, strict=True) if count]


def rows(window: FlagWindow) -> list[dict[str, Any]]:
    """Flagged values of the window."""
    return [
        {
            "token": int(window.tokens[row]),
            "position": int(window.positions[column]),
            "value": float(window.values[row, column]),
            "flags": ", ".join(names(int(window.codes[row, column]))),
            "shown as": LOOKS[KINDS[window.kinds[row, column]]].words,
            "reason": window.reasons[row, column],
        }
        for row, column in np.argwhere(window.codes > 0)
    ]


def value_words(value: float) -> str:
    """Four digits, or whole numbers up to a million."""
    said = f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return said.replace("-", "−").replace("e−", "e-").replace("inf", "infinity")


def _hover(window: FlagWindow, row: int, column: int, where: str) -> str:
    kind = window.kinds[row, column]
    if kind == NOT_LOGGED:
        return f"{where}: not logged"
    said = f"{where}<br><b>{value_words(float(window.values[row, column]))}</b>"
    if kind == 0:
        return said
    flags = ", ".join(LOOKS[flag].words for flag in names(int(window.codes[row, column])))
    meant = f" ({ON_PURPOSE})" if KINDS[kind] == "purpose" else ""
    reason = "<br>".join(escape(line) for line in wrap(window.reasons[row, column], HOVER_CHARS))
    return f"{said} {flags}{meant}<br>{reason}"


def _ticks(values: Sequence[int]) -> dict[float, str]:
    """Cells stand side by side, though their tokens or ids may not."""
    step = -(-len(values) // MOST_TICKS) * (1 if len(values) <= MOST_TICKS else 5)
    return {place: str(values[place]) for place in range(0, len(values), step)}
