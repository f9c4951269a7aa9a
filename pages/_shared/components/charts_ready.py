"""What draws charts, fetched while the reader looks at a section that has none: it takes the browser half a second.

The file is Streamlit's own; where a version names it differently, charts come as they did without this.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_FILES = Path(st.__file__).parent / "static"
_JS = """
export default function ({ data }) {
  if (data) (window.requestIdleCallback ?? setTimeout)(() => import(new URL(data, document.baseURI)).catch(() => {}));
}
"""


def charts_ready() -> None:
    """Call it last on a page: the browser does it once it has nothing else to do."""
    _mount(key="charts-ready", data=drawing_module())


def drawing_module() -> str | None:
    """Its address below the app's own."""
    return next(
        (file.relative_to(_FILES).as_posix() for file in _FILES.glob("static/js/PlotlyChart.*.js")),
        None,
    )


_mount = st.components.v2.component("driftscope_charts_ready", html="<span></span>", js=_JS)
