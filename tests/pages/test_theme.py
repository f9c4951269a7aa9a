"""One set of colours, which can be read, and every key of config.toml is Streamlit's."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest

from pages._shared.theme import (
    DARK,
    LIGHT,
    Palette,
    ink_on,
    plotly_template,
)

CONFIG = tomllib.loads((Path(__file__).resolve().parents[2] / ".streamlit/config.toml").read_text(encoding="utf-8"))
COMPONENTS = Path(__file__).resolve().parents[2] / "pages/_shared/components"
THEMES = {"light": LIGHT, "dark": DARK}
HUES = ("blue", "orange", "green", "violet", "red", "yellow", "gray")


def keys(table: dict[str, object], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in table.items():
        found += keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return found


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def tinted(hue: str, ground: str, share: float) -> str:
    mixed = [round(int(hue[i : i + 2], 16) * share + int(ground[i : i + 2], 16) * (1 - share)) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def test_every_key_of_the_configuration_exists() -> None:
    assert [key for key in keys(CONFIG) if key not in config._config_options_template] == []


def test_the_app_stays_on_this_machine() -> None:
    assert CONFIG["server"]["address"] == "localhost"
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"]["showErrorLinks"] is False
    assert "://" not in str(CONFIG["theme"])


@pytest.mark.parametrize("name", THEMES)
def test_text_reaches_wcag_aa_on_every_ground(name: str) -> None:
    theme = CONFIG["theme"][name]
    grounds = (theme["backgroundColor"], theme["secondaryBackgroundColor"])
    for ground in grounds:
        for colour in (theme["textColor"], theme["linkColor"], *(theme[f"{hue}TextColor"] for hue in HUES)):
            assert contrast(colour, ground) >= 4.5
        for hue in HUES:
            assert contrast(theme["textColor"], tinted(theme[f"{hue}TextColor"], ground, 0.26)) >= 4.5
    assert contrast("#ffffff", theme["primaryColor"]) >= 4.5  # Streamlit writes white on its primary buttons
    assert contrast(theme["primaryColor"], theme["backgroundColor"]) >= 3  # and draws controls with it


@pytest.mark.parametrize("palette", THEMES.values())
def test_the_plotly_template_is_the_palette(palette: Palette) -> None:
    layout = plotly_template(palette).layout
    assert list(layout.colorway) == palette.series
    assert layout.font.color == palette.text


def test_an_unknown_theme_counts_as_light() -> None:
    def page() -> None:
        import streamlit as st

        from pages._shared.theme import LIGHT, palette

        st.text(palette() == LIGHT)

    assert AppTest.from_function(page).run().text[0].value == "True"


@pytest.mark.parametrize("colours", THEMES.values(), ids=THEMES)
def test_letters_on_any_fill_can_be_read(colours: Palette) -> None:
    fills = (*colours.series, colours.junk, colours.cut, colours.free, colours.copy, colours.exact, colours.neutral)
    assert min(contrast(ink_on(fill), fill) for fill in fills) >= 4.5
    assert ink_on("#000000") == "#ffffff" and ink_on("#ffffff") != "#ffffff"
