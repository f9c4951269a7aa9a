"""In a window of 1000 pixels a table has 700: what matters of a wide one is in sight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages._drift.molecules import FOLD

ROOT = Path(__file__).resolve().parents[2]
TICKS_PX = 38


@pytest.mark.parametrize(
    ("page", "view", "alt", "last", "room_px"),
    [
        ("drift", "Molecules", "Molecules", "checks", 650 - TICKS_PX),
    ],
)
def test_the_columns_that_matter_are_seen_without_scrolling(
    monkeypatch: pytest.MonkeyPatch, page: str, view: str, alt: str, last: str, room_px: int
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(ROOT / "data/demo"))
    app = AppTest.from_file(ROOT / f"pages/{page}.py", default_timeout=120)
    app.query_params["view"] = view
    app.session_state[f"kept {FOLD}"] = True  # the table of molecules
    app.run()
    table = next(one for one in app.dataframe if alt in one.proto.alt)
    names = list(table.proto.column_order or table.value.columns)
    widths = json.loads(table.proto.columns)
    seen = names[: names.index(last) + 1]
    assert sum(widths[name]["width"] for name in seen) <= room_px
