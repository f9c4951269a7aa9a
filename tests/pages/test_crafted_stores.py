"""Pages over stores that somebody else crafted: each says what is damaged, and none breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.errors import DEBUG
from engine.paths import ROOT
from engine.store.columns import Kind
from engine.store.schema import LOGIT_LOG, RUN
from engine.store.trace_schema import TRACE
from tests.crafted import copied, craft, craft_sheet, filled, is_let_through, nonsense_for
from tests.support import of_soak

SECTIONS = {
    "logit_logs": ("logits", ("Models", "Health", "Parity")),
    "runs": ("drift", ("Molecules", "What the LP did")),
    "traces": ("profiles", ("Families", "Timeline")),
}


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


@of_soak
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of sums near the largest number: to a page it is infinite
@pytest.mark.parametrize(
    ("kind", "part"), [(LOGIT_LOG, "driftscope-demo-qwen"), (RUN, "demo-qwen-final-exact"), (TRACE, "demo-qwen")]
)
def test_nonsense_of_every_kind_breaks_no_page(
    kind: Kind, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table's columns all at once: the n-th nonsense of each that its rules let through."""
    page, views = SECTIONS[kind.folder]
    for table in kind.tables:
        for number in range(3):
            place = tmp_path / f"{table.name}{number}"
            store, entry = copied(place, kind, part)
            if table.name not in entry.parts:
                break
            for column in table:
                values = [value for value in nonsense_for(column) if is_let_through(column, value)]
                if values and column.name not in (kind.key, *table.key):
                    craft(store.entry(entry.id, kind), table.name, filled(column.name, values[number % len(values)]))
            for view in views:
                assert not opened(monkeypatch, place, page, view).exception, (table.name, number, view)
