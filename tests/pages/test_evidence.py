"""The Evidence page by its state, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.questions import ask, question_of
from tests.cli import run
from tests.engine.inspection.made import DEMO_STORE
from tests.engine.store.stored_runs import store_at
from tests.pages.apps import opened, table, words

pytestmark = pytest.mark.usefixtures("demo_store")


def test_in_two_minutes_has_the_figures_and_the_lost_third_and_a_fold() -> None:
    app = opened("evidence")
    said = words(app)
    assert "26 of 85 claims fell" in said and "fell from 68.1 to 44.0 %" in said and "misreads" not in said
    assert [heading.value for heading in app.header] == [
        question_of(key).TITLE for key in ("evidence_figures", "evidence_lost_third")
    ]
    folded = opened("evidence", session={"kept misread": True})
    assert "the group's reader puts the atom elsewhere" in words(folded)


def test_a_claims_figures_are_on_one_scale_with_their_interval() -> None:
    """What most rests on comes first; a speed's interval is of the same direction as the speed."""
    rows = ask(DEMO_STORE, "evidence_figures", []).tables["main"].to_pylist()
    assert [row["claim_id"] for row in rows[:4:2]] == ["000-junk-share", "003-calls-by-tokens"]
    assert [row["rests"] for row in rows] == sorted((row["rests"] for row in rows), reverse=True)
    by_claim = {row["claim_id"]: (row, before) for before, row in zip(rows[::2], rows[1::2], strict=True)}
    here, report = by_claim["002-cannot-be-faster"]
    assert (report["value"], report["words"], here["words"]) == (1.0, "1×", "4.40×")
    assert here["value"] == pytest.approx(4.401143) and 4.0 < here["low"] < 4.4 < here["high"] < 5.0
    assert report["place"] / here["place"] == pytest.approx(report["value"] / here["value"])
    here, report = by_claim["005-fit"]
    assert (report["words"], here["value"], here["low"]) == ("about 80 %", 0.0, 0.0) and 0 < here["high"] < 5
    here, report = by_claim["001-mask-size"]
    assert (report["words"], here["words"], here["low"]) == ("9.7 | 9.73 GB", "", None)
    assert {row["whose"] for row in rows if row["claim_id"] == "000-junk-share"} == {"report", "another report"}


def test_the_table_is_filtered_and_a_link_opens_a_claim() -> None:
    claims = table(opened("evidence", view="All claims", report=["002", "003"], verdict=["contradicted"]), "claim_id")
    assert {id_[:3] for id_ in claims["claim_id"]} == {"002", "003"} and set(claims["verdict"]) == {"contradicted"}
    hits = table(opened("evidence", view="All claims", find="junk share"), "claim_id")
    assert "002-junk-share-qwen" in set(hits["claim_id"]) and len(hits) < 10
    said = words(opened("evidence", claim="003-layers-qwen-whole"))
    assert "1,730 steps of a batch of 32" in said and "Checked with: WITH run AS (SELECT 48440" in said
    assert "here is no claim" in words(opened("evidence", claim="no-such"))


def test_a_figure_says_whose_it_is_in_three_digits_and_a_command_is_code() -> None:
    said = words(opened("evidence", claim="000-junk-share"))
    assert "report: 11.1 % · report 002: 3.8 %" in said and "here: 3.8" not in said, "which report 002 states"
    said = words(opened("evidence", claim="005-failures-no-cause"))
    assert "from the reports' figures: 0.144 % of all samples" in said
    code = "`.venv/bin/python -m tools.bench.decode`"
    shown = "\n".join(part.value for part in opened("evidence", claim="002-cannot-be-faster").markdown)
    assert code in shown.replace("\u00a0", " ")
    rows = {row["claim_id"]: row for row in ask(DEMO_STORE, "evidence_claims", []).tables["main"].to_pylist()}
    assert (rows["000-junk-share"]["measured"], rows["005-mismatch-share"]["measured"]) == ("", "0.174")


def test_the_claims_fit_a_window_of_1440_px() -> None:
    """The table has 1,028 of them: up to the statement, texts wrap, and figures take the rest."""
    wide = {name: column.wrap_px for name, column in question_of("evidence_claims").COLUMNS.items() if column.wrap_px}
    assert set(wide) == {"claim_id", "verdict", "unit", "statement"} and sum(wide.values()) <= 740


def test_a_speed_is_told_in_one_direction() -> None:
    """24.0 s with the LP and 25.3 s without: in the table, of one claim, and in a terminal; JSON has the ratio."""
    rows = {row["claim_id"]: row for row in ask(DEMO_STORE, "evidence_claims", []).tables["main"].to_pylist()}
    assert (rows["000-qwen-slower"]["measured"], rows["000-qwen-slower"]["unit"]) == ("1.05× faster", "")
    assert rows["002-cannot-be-faster"]["measured"] == "4.40× faster"
    assert "here: 1.05× faster" in ask(DEMO_STORE, "evidence_claims", [], {"claim": "000-qwen-slower"}).answer
    assert "1.05× faster" in run("claims", "000-qwen-slower").out


def test_an_empty_store_says_how_the_lost_third_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    store = store_at(tmp_path / "store")
    for view in ("In two minutes", "The lost third"):
        app = opened("evidence", view=view)
        assert not app.error and "make lost-third MODEL=demo-qwen" in words(app)
        (lead,) = [element.value for element in app.markdown if "lost-third" in element.value]
        assert "`make" in lead and "\\`" not in lead  # as code
    store.home.write("lost_third/x.json", b"{")
    answered = ask(store, "evidence_lost_third", [])
    assert "x.json" in answered.answer and {table.num_rows for table in answered.tables.values()} == {0, 1}


def test_the_lost_third_in_steps_and_by_lane() -> None:
    tables = ask(DEMO_STORE, "evidence_lost_third", [], {"lost_third_model": "demo-qwen-fixed"}).tables
    steps = {row["step"]: row["change"] for row in tables["fall"].to_pylist() if row["model"] == "demo-qwen"}
    assert steps["failed parses"] == pytest.approx(-0.4375) and steps["in all"] == pytest.approx(-0.6375, abs=1e-3)
    assert tables["lanes"]["lane"].to_pylist()[0] == "no LP" and len(set(tables["curves"]["lane"].to_pylist())) == 4
