"""In a window of 1000 pixels a table has 700: what matters of a wide one stands within them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
ROOM_PX, TICKS_PX = 700, 38


@pytest.mark.parametrize(
    ("page", "view", "alt", "last", "ticks_px"),
    [
        ("logits", "Models", "as the report states it", "vocabulary", 0),
        ("logits", "Models", "Logs of this store", "ours", 0),
        ("logits", "Parity", "by position filter", "pairs", 0),
        ("logits", "Parity", "Checkpoints of both", "diverges at", 0),
        ("profiles", "Kernels", "Operations", "ms_x", TICKS_PX),
        ("compare", "Advice", "Each LP's rates", "over", 0),
        ("evidence", "In two minutes", "misreads", "block", 0),
    ],
)
def test_the_columns_that_matter_are_seen_without_scrolling(
    monkeypatch: pytest.MonkeyPatch, page: str, view: str, alt: str, last: str, ticks_px: int
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(ROOT / "data/demo"))
    app = AppTest.from_file(ROOT / f"pages/{page}.py", default_timeout=120)
    app.query_params["view"] = view
    app.run()
    table = next(one for one in app.dataframe if alt in one.proto.alt)
    names = list(table.proto.column_order or table.value.columns)
    widths = json.loads(table.proto.columns)
    seen = names[: names.index(last) + 1]
    assert sum(widths[name]["width"] for name in seen) + ticks_px <= ROOM_PX
