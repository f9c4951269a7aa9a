"""One set of colours, which can be read, and every key of config.toml is Streamlit's."""

from __future__ import annotations

import tomllib

import pytest
from streamlit import config

from engine.paths import ROOT
from pages._kit.theme import DARK, LIGHT, ink_on, plotly_template

CONFIG = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))
THEMES = {"light": LIGHT, "dark": DARK}
HUES = ("blue", "orange", "green", "violet", "red", "yellow", "gray")


def keys(table: dict[str, object], prefix: str = "") -> list[str]:
    names: list[str] = []
    for name, value in table.items():
        names += keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return names


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, other: str) -> float:
    high, low = sorted((luminance(first), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def tinted(hue: str, ground: str, share: float) -> str:
    mixed = [round(int(hue[i : i + 2], 16) * share + int(ground[i : i + 2], 16) * (1 - share)) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def test_every_key_of_the_configuration_exists_and_the_app_stays_on_this_machine() -> None:
    assert [key for key in keys(CONFIG) if key not in config._config_options_template] == []
    assert CONFIG["server"]["address"] == "localhost" and "://" not in str(CONFIG["theme"])
    assert CONFIG["browser"]["gatherUsageStats"] is CONFIG["client"]["showErrorLinks"] is False


@pytest.mark.parametrize("name", THEMES)
def test_text_reaches_wcag_aa_on_every_ground_and_fill(name: str) -> None:
    theme, palette = CONFIG["theme"][name], THEMES[name]
    for ground in (theme["backgroundColor"], theme["secondaryBackgroundColor"]):
        for colour in (theme["textColor"], theme["linkColor"], *(theme[f"{hue}TextColor"] for hue in HUES)):
            assert contrast(colour, ground) >= 4.5
        for hue in HUES:
            assert contrast(theme["textColor"], tinted(theme[f"{hue}TextColor"], ground, 0.26)) >= 4.5
    assert contrast("#ffffff", theme["primaryColor"]) >= 4.5  # Streamlit writes white on its primary buttons
    assert contrast(theme["primaryColor"], theme["backgroundColor"]) >= 3  # and draws controls with it
    fills = (*palette.series, palette.junk, palette.cut, palette.free, palette.copy, palette.exact, palette.neutral)
    assert min(contrast(ink_on(fill), fill) for fill in fills) >= 4.5
    assert ink_on("#000000") == "#ffffff" and ink_on("#ffffff") != "#ffffff"
    layout = plotly_template(palette).layout
    assert (list(layout.colorway), layout.font.color) == (palette.series, palette.text)
