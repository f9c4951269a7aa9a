"""The Evidence page by its state, without a browser."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from engine.paths import ROOT
from engine.questions import ask
from tests.engine.inspection.made import DEMO_STORE


@pytest.fixture(autouse=True)
def demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO_STORE.home.where))


def opened(**query: str | list[str]) -> AppTest:
    app = AppTest.from_file(str(ROOT / "pages" / "evidence.py"), default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def text_of(app: AppTest) -> str:
    shown = (*app.markdown, *app.caption, *app.error, *app.warning, *app.info)
    return "\n".join(part.value for part in shown).replace("\\", "").replace("\u00a0", " ")


def test_in_two_minutes_has_the_lost_third_the_highlights_and_the_misread_blocks() -> None:
    text = text_of(opened())
    assert "85 claims" in text and "fell from 68.1 to 44.0 %" in text
    assert text.count("“Qwen cannot be faster with an LP than without.”") == 1
    assert "the group's reader puts the atom elsewhere" in text


def test_the_table_is_filtered_and_a_link_opens_a_claim() -> None:
    app = opened(view="All claims", report=["002", "003"], verdict=["contradicted"])
    table = app.dataframe[0].value
    assert {id_[:3] for id_ in table["claim_id"]} == {"002", "003"} and set(table["verdict"]) == {"contradicted"}
    found = opened(view="All claims", find="junk share").dataframe[0].value
    assert "002-junk-share-qwen" in set(found["claim_id"]) and len(found) < 10
    app = opened(claim="003-layers-qwen-whole")
    assert "1,730 steps of a batch of 32" in text_of(app) and "By: WITH run AS (SELECT 48440" in text_of(app)
    assert "here is no claim" in text_of(opened(claim="no-such"))


def test_the_lost_third_in_steps_and_by_lane() -> None:
    found = ask(DEMO_STORE, "evidence_lost_third", [], {"lost_third_model": "demo-qwen-fixed"}).tables
    steps = {row["step"]: row["change"] for row in found["fall"].to_pylist() if row["model"] == "demo-qwen"}
    assert steps["failed parses"] == pytest.approx(-0.4375) and steps["in all"] == pytest.approx(-0.6375, abs=1e-3)
    assert found["lanes"]["lane"].to_pylist()[0] == "no LP" and len(set(found["curves"]["lane"].to_pylist())) == 4
