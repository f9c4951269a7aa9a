"""Pages over stores that somebody else crafted: each says what is damaged, and none breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.errors import DEBUG
from engine.paths import ROOT
from engine.store.schema import LOGIT_LOG
from tests.crafted import copied, craft, craft_sheet, filled


def opened(monkeypatch: pytest.MonkeyPatch, place: Path, page: str, view: str) -> AppTest:
    st.cache_resource.clear()
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(place))
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=60)
    app.query_params["view"] = view
    return app.run()


@pytest.mark.parametrize(
    ("view", "table", "column", "value"),
    [("Models", "logit_entries", "middle", 1e308), ("Health", "logit_values", "flags", ["constant", "constant"])],
)
def test_a_crafted_log_breaks_no_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str, table: str, column: str, value: object
) -> None:
    _, entry = copied(tmp_path, LOGIT_LOG, "driftscope-demo-qwen")
    craft(entry, table, filled(column, value))
    craft_sheet(entry, lambda sheet: sheet["row"].update(entries=0))
    assert not opened(monkeypatch, tmp_path, "logits", view).exception


def test_a_section_that_breaks_says_so_in_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copied(tmp_path, LOGIT_LOG, "driftscope-demo-qwen")

    def broken(*given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("engine.questions.logits_models.tables", broken)
    page = opened(monkeypatch, tmp_path, "logits", "Models")
    assert page.exception  # as our tests want it
    monkeypatch.setenv(DEBUG, "0")
    page = opened(monkeypatch, tmp_path, "logits", "Models")
    assert not page.exception
    assert "Which logs have garbage? cannot be shown: ZeroDivisionError" in page.error[0].value.replace("\\", "")
