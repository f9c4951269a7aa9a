"""Draws the page again after the reader has switched the theme.

Streamlit restyles its own parts in the browser; charts and drawings have the colours that Python gave them.
"""

from __future__ import annotations

import streamlit as st

from pages._shared.theme import palette

# Streamlit calls it again when the theme changes. Each ground is asked for once: where the server's differs after that
# too, nothing would be won by asking on.
_JS = """
export default function ({ data, parentElement, setTriggerValue }) {
  const ground = getComputedStyle(parentElement.querySelector("span")).getPropertyValue("--st-background-color").trim();
  const asked = globalThis.driftscopeGround;
  globalThis.driftscopeGround = ground;
  if (ground && ground !== data && ground !== asked) setTriggerValue("switched", ground);
}
"""


def follow_theme() -> None:
    """Call it outside of fragments, so that all of the page is drawn."""
    _mount(key="theme-follower", data=palette().background, on_switched_change=lambda: None)


_mount = st.components.v2.component("driftscope_theme_follower", html="<span></span>", js=_JS)
