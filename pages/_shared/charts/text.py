"""Texts inside of a figure: plotly reads some markup in them, so what anybody wrote is escaped."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from engine.errors import one_line
from engine.figures.words import shortened

MOST_CHARS, MOST_LINE, MOST_LINES = 400, 30, 3


class Markup(str):
    """A text whose markup is ours: it is not escaped again."""

    __slots__ = ()


def safe(text: str, most: int = MOST_CHARS) -> Markup:
    """Any text inside of a figure."""
    return text if isinstance(text, Markup) else Markup(escape(shortened(one_line(text), most)))


def on_axis(name: str) -> Markup:
    """A run's name as a label of an axis, in two lines."""
    first, *rest = one_line(name).split(" · ")
    lines = [" · ".join([first, *rest[:1]]), " · ".join(rest[1:])]
    return Markup("<br>".join(safe(line, MOST_LINE) for line in lines if line))


def wrapped(text: str) -> Markup:
    """Words as a label of an axis, whole in up to three lines."""
    lines = wrap(one_line(text), MOST_LINE, max_lines=MOST_LINES, placeholder=" …", break_on_hyphens=False)
    return Markup("<br>".join(map(safe, lines)))
