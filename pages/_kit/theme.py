"""Colours for figures and drawings, the same meaning in the light and in the dark.

``.streamlit/config.toml`` holds the hues for Streamlit's own widgets and the token strip;
here they are read for what is drawn in Python: plotly figures and SVG. Colour is never alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from engine.paths import ROOT, read_toml

if TYPE_CHECKING:
    from plotly.graph_objects.layout import Template


@dataclass(frozen=True, slots=True)
class Palette:
    """Named by purpose. ``copy`` to ``neutral`` are fills and lines; the rest is ground and writing."""

    copy: str
    free: str
    junk: str  # positive drift
    cut: str  # negative drift
    exact: str
    wrong: str  # an atom that a check of the molecule names
    neutral: str
    accent: str
    background: str
    surface: str
    text: str
    muted: str
    grid: str
    series: list[str]


_KEYS = {
    "copy": "blueColor",
    "free": "violetColor",
    "junk": "redColor",
    "cut": "orangeColor",
    "exact": "greenColor",
    "wrong": "yellowColor",
    "neutral": "grayColor",
    "accent": "primaryColor",
    "background": "backgroundColor",
    "surface": "secondaryBackgroundColor",
    "text": "textColor",
    "muted": "grayTextColor",
    "grid": "borderColor",
    "series": "chartCategoricalColors",
}
_THEMES = read_toml(ROOT / ".streamlit" / "config.toml", "Streamlit's configuration", lambda read: read["theme"])
LIGHT, DARK = (Palette(**{name: _THEMES[kind][key] for name, key in _KEYS.items()}) for kind in ("light", "dark"))

INK, PAPER = "#0f171a", "#ffffff"
"""Letters on fills."""


def palette() -> Palette:
    """The colours for the theme that the reader sees. Streamlit knows it from the browser; unknown counts as light."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def ink_on(fill: str) -> str:
    """Dark or light letters, whichever stand out more from this colour."""
    fill_light, dark, light = (_luminance(colour) + 0.05 for colour in (fill, INK, PAPER))
    return INK if fill_light / dark >= light / fill_light else PAPER


def mixed(low: str, high: str, share: float) -> str:
    """The colour between two, as plotly's scales have it."""
    ends = ([int(colour[start : start + 2], 16) for start in (1, 3, 5)] for colour in (low, high))
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(*ends, strict=True))


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def plotly_template(colours: Palette) -> Template:
    """A plotly template in the app's colours; show the figure with ``st.plotly_chart(figure, theme=None)``."""
    import plotly.graph_objects as go  # half a second, and only pages with figures pay it

    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.grid,
        "zerolinecolor": colours.muted,
        "ticks": "",
        "automargin": True,
        "title": {"standoff": 10},
    }
    return go.layout.Template(
        layout={
            "colorway": colours.series,
            "paper_bgcolor": colours.background,  # of a page; else a saved picture has its words on nothing
            "plot_bgcolor": "rgba(0,0,0,0)",
            # Streamlit's own font, which it serves itself
            "font": {"family": '"Source Sans", sans-serif', "color": colours.text, "size": 14},
            "title": {"x": 0, "xanchor": "left", "font": {"size": 16}},
            "xaxis": axis,
            "yaxis": axis,
            "margin": {"l": 10, "r": 10, "t": 40, "b": 10},
            "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "xanchor": "left"},
            "hoverlabel": {"bgcolor": colours.surface, "bordercolor": colours.grid, "font": {"color": colours.text}},
            "bargap": 0.15,
        }
    )
