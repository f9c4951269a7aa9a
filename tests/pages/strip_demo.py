"""The token strip on a page of its own: what the browser tests and the pictures look at. Not a page of the app."""

from __future__ import annotations

import streamlit as st

from pages._shared.components.token_strip import Chip, token_strip
from pages._shared.frame import page
from tests.pages.strip_demo_chips import HOSTILE, generated, many

page("Token strip", ":material/token:", "Every look that a chip can have, and every piece that could hurt.")
choice = st.radio("Chips", ["generated", "hostile", "3,000 chips", "growing", "none"], horizontal=True)
shown = st.session_state.setdefault("chips shown", 20)
if choice == "growing" and st.button("More"):
    shown = st.session_state["chips shown"] = shown + 450
chips = {
    "generated": generated(),
    "hostile": [Chip(piece, i, note=piece[:100]) for i, piece in enumerate(HOSTILE)],
    "3,000 chips": many(3000),
    "growing": many(shown),
    "none": [],
}[choice]
selected = token_strip(chips, key="strip", label="Generated text", caption="Caption of the strip.")
st.text(f"selected: {selected}")
st.button("Rerun")
