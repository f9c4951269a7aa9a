"""In a window of 1000 pixels a table has 700, in one of 1440 it has 1058: what matters of a wide one is in sight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
NARROW_PX, WIDE_PX, TICKS_PX = 700, 1058, 38


@pytest.mark.parametrize(
    ("page", "view", "alt", "last", "room_px"),
    [
        ("logits", "Models", "as the report states it", "vocabulary", NARROW_PX),
        ("logits", "Models", "Logs of this store", "ours", NARROW_PX),
        ("logits", "Models", "Logs of this store", "origin", WIDE_PX),
        ("logits", "Parity", "by position filter", "pairs", NARROW_PX),
        ("logits", "Parity", "Checkpoints of both", "diverges at", NARROW_PX),
        ("profiles", "Kernels", "Operations", "ms_x", NARROW_PX - TICKS_PX),
        ("compare", "Advice", "Each LP's rates", "over", NARROW_PX),
        ("evidence", "In two minutes", "misreads", "block", NARROW_PX),
    ],
)
def test_the_columns_that_matter_are_seen_without_scrolling(
    monkeypatch: pytest.MonkeyPatch, page: str, view: str, alt: str, last: str, room_px: int
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(ROOT / "data/demo"))
    app = AppTest.from_file(ROOT / f"pages/{page}.py", default_timeout=120)
    app.query_params["view"] = view
    app.run()
    table = next(one for one in app.dataframe if alt in one.proto.alt)
    names = list(table.proto.column_order or table.value.columns)
    widths = json.loads(table.proto.columns)
    seen = names[: names.index(last) + 1]
    assert sum(widths[name]["width"] for name in seen) <= room_px
