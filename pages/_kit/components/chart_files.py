"""Buttons that save the charts of a card as SVG or PNG, in the browser that has drawn them."""

from __future__ import annotations

import streamlit as st

from pages._kit.components.once import source


def chart_files(card: str) -> None:
    """Of the container of this key, whose charts have a camera as the last button of their bar."""
    _mount(key=f"chart-files-{card}", data=card)


_mount = st.components.v2.component(
    "driftscope_chart_files",
    html='<section><button value="svg">Chart as SVG</button> <button value="png">Chart as PNG</button></section>',
    css=source("component_theme.css"),
    js=source("chart_files.js"),
)
