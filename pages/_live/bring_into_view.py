"""A place on the page that is scrolled to the top of the window once, until the reader scrolls or types."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages._kit.components.once import source


def bring_into_view(name: str, *, key: str) -> None:
    """Each ``name`` once in a tab; what is below may still be drawn meanwhile."""
    _mount(key=key, data={"name": name})


_mount = st.components.v2.component(
    "driftscope_bring_into_view", html='<div class="place"></div>', js=source(Path(__file__).with_suffix(".js"))
)
