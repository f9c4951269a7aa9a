"""A molecule as a small picture: for cells of tables and grids."""

from __future__ import annotations

import base64
import re

import streamlit as st

from engine.chem.drawing import draw_svg
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError

SIZE_PX = (124, 62)
_SELECTOR = re.compile(r"<circle [^>]*atom-selector[^>]*/>\s*")


@st.cache_data(max_entries=4_000, show_spinner=False)
def small_drawing(smiles: str, dark: bool) -> str | None:
    """As the address of a picture; None where the SMILES cannot be read."""
    try:
        svg = draw_svg(parse_smiles(smiles), width=SIZE_PX[0], height=SIZE_PX[1], dark=dark)
    except DriftscopeError:
        return None
    return "data:image/svg+xml;base64," + base64.b64encode(_SELECTOR.sub("", svg).encode()).decode()
