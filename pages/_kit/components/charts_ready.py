"""What draws charts, fetched as the reader of a section that has none moves the pointer: it takes the browser half a
second, and while the page comes up it would stand in the way.

The file is Streamlit's own; where a version names it differently, charts come as they did without this.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

_FILES = Path(st.__file__).parent / "static"
_JS = """
export default function ({ data }) {
  const fetchIt = () => import(new URL(data, document.baseURI)).catch(() => {});
  if (data) addEventListener("pointermove", fetchIt, { once: true });
}
"""


def charts_ready() -> None:
    """Call it last on a page."""
    _mount(key="charts-ready", data=drawing_module())


@cache
def drawing_module() -> str | None:
    """Its address below the app's own."""
    return next((file.relative_to(_FILES).as_posix() for file in _FILES.glob("static/js/PlotlyChart.*.js")), None)


_mount = st.components.v2.component("driftscope_charts_ready", html="<span></span>", js=_JS)
