"""The Evidence page's logic, by the state of its page, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import FileFormatError
from engine.evidence import verdicts
from engine.evidence.claims import load_claims
from engine.evidence.lost_third import load_all
from engine.evidence.verdicts import Judgement
from engine.inspection.misread import misread_by_run
from engine.paths import ROOT
from engine.store.store import Store
from pages._evidence import browse, lost_third
from pages._evidence import store as evidence_store
from pages._evidence.claims import judged_claims
from pages._shared.components import claims_list as evidence_list
from pages._shared.components.molecule2d import picked_atom
from tests.engine.inspection.made import DEMO_STORE
from tests.pages.component_tests import messages_of

PAGE = str(ROOT / "pages" / "evidence.py")
Open = Callable[..., AppTest]
ROWS = judged_claims(load_claims(), verdicts.load())
PLACES = {row.id: place for place, row in enumerate(ROWS)}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    """The page over the store that ships."""
    monkeypatch.delenv("DRIFTSCOPE_STORE", raising=False)
    return _open


def _open(**query: str | list[str]) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def words(app: AppTest) -> str:
    shown = (*app.markdown, *app.caption, *app.info, *app.warning, *app.error)
    return "\n".join(one.value for one in shown).replace("\\", "")


def query(app: AppTest, name: str) -> str | None:
    values = app.query_params.get(name)
    return None if not values else values[-1] if isinstance(values, list) else str(values)


def codes(app: AppTest) -> list[str]:
    return [code.value for code in app.code]


def links(app: AppTest) -> list[str]:
    return [link.proto.url for link in app.get("link_button")]


# --- the first section --------------------------------------------------------------------------------------------


def test_the_first_visit_counts_verdicts_and_tells_the_conclusions(opened: Open) -> None:
    app = opened()
    assert not app.exception and not app.error
    said = words(app)
    for name in {row.name for row in ROWS}:
        assert f"{sum(row.name == name for row in ROWS):,} {name}" in said
    assert "Checked " in said and "make claims" in said
    for row in ROWS:
        assert (f"open-{row.id}" in {button.key for button in app.button}) == row.claim.highlight
    assert "reproduce" in said


def test_a_card_opens_its_claim_among_all(opened: Open) -> None:
    app = opened()
    app.button(key="open-002-cannot-be-faster").click().run()
    assert not app.exception
    assert query(app, "claim") == "002-cannot-be-faster"
    assert query(app, "view") == "All claims"
    assert "Report 002, 7.1" in words(app)


# --- filters and the address --------------------------------------------------------------------------------------


def test_filters_leave_what_they_say(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = messages_of(evidence_list._component, monkeypatch)
    app = opened(view="All claims", report="003", verdict="contradicted")
    shown = [ROWS[place] for place in sent[-1]["shown"]]
    assert shown and {(row.claim.report, row.name) for row in shown} == {("003", "contradicted")}
    assert f"{len(shown)} of {len(ROWS)} claims" in words(app)
    app.toggle(key="figure").set_value(True).run()
    assert all(ROWS[place].has_figure for place in sent[-1]["shown"])
    app.text_input(key="find").set_value("no such words").run()
    assert sent[-1]["shown"] == []
    app.button(key="drop_filters").click().run()
    assert len(sent[-1]["shown"]) == len(ROWS)
    assert not app.exception


def test_several_reports_and_a_subject(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = messages_of(evidence_list._component, monkeypatch)
    opened(view="All claims", report=["000", "004"])
    assert {ROWS[place].claim.report for place in sent[-1]["shown"]} == {"000", "004"}
    subject = ROWS[PLACES["002-cannot-be-faster"]].claim.subject
    opened(view="All claims", about=subject)
    assert {ROWS[place].claim.subject for place in sent[-1]["shown"]} == {subject}


def test_rows_travel_once(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = messages_of(evidence_list._component, monkeypatch)
    app = opened(view="All claims")
    app.text_input(key="find").set_value("junk").run()
    assert ["large" in message for message in sent] == [True, False]


def test_an_address_that_means_nothing_is_as_if_it_were_not_there(opened: Open) -> None:
    app = opened(view="All claims", report="999", verdict="<img>", about="nobody", figure="maybe")
    assert not app.exception and not app.error
    assert f"{len(ROWS)} claims" in words(app)


# --- one claim ----------------------------------------------------------------------------------------------------


def test_a_link_to_a_claim_opens_it(opened: Open) -> None:
    app = opened(claim="000-junk-share")
    said = words(app)
    assert "Every ninth coordinate block" in said
    assert "also in Counts, Expected results" in said
    assert "The report has 11.1 %" in said
    assert "{000-junk-share} == {002-junk-share-qwen}" in codes(app)
    assert len(app.get("plotly_chart")) == 1


def test_an_unknown_claim_is_one_message(opened: Open) -> None:
    app = opened(claim="<img src=x onerror=alert(1)>" + "x" * 500)
    (error,) = app.error
    assert "There is no claim" in error.value and "\\<img" in error.value and len(error.value) < 300
    assert not app.exception


def test_a_pick_in_the_list_opens_the_claim_and_escape_closes_it(opened: Open) -> None:
    app = opened(view="All claims")
    app.session_state[browse.LIST] = picked_atom(PLACES["001-mask-size"])
    app.run()
    assert query(app, "claim") == "001-mask-size"
    assert "9.728" in words(app)
    app.session_state[browse.LIST] = picked_atom(None)
    app.run()
    assert query(app, "claim") is None
    assert "Select a claim" in words(app)
    assert not app.exception


def test_next_and_previous_walk_what_the_filters_leave(opened: Open) -> None:
    left = [row.id for row in ROWS if row.claim.report == "003" and row.name == "contradicted"]
    app = opened(view="All claims", report="003", verdict="contradicted", claim=left[0])
    assert app.button(key="go-1").disabled
    app.button(key="go1").click().run()
    assert query(app, "claim") == left[1]
    app.button(key="go-1").click().run()
    assert query(app, "claim") == left[0]
    app = opened(view="All claims", report="003", claim="000-junk-share")
    assert "hidden by the filters" in words(app)
    assert app.button(key="go1").disabled and app.button(key="go-1").disabled


def test_a_related_claim_is_one_click_away(opened: Open) -> None:
    app = opened(claim="000-junk-share")
    app.button(key="related-002-junk-share-qwen").click().run()
    assert query(app, "claim") == "002-junk-share-qwen"
    assert "related-000-junk-share" in {button.key for button in app.button}
    assert not app.exception


@pytest.mark.parametrize(
    ("id_", "link", "code"),
    [
        ("002-cannot-be-faster", "compare?view=SQL&sql=SELECT", "FROM runs"),
        ("001-hypothesis-tokens-block-llama3", "tokenizer_lab?text=1.2345", "QUANTITIES['tokens']"),
        ("001-block-tokens", "compare?view=SQL&sql=SELECT", "drift_summary("),
        ("001-mask-cannot-be-kept", "compare?view=SQL&sql=SELECT", "build_constraint("),
        ("002-time-qwen-lp", "compare?view=SQL&sql=SELECT", "device LIKE '%H100%'"),
        ("002-decomposition", "", "{002-tokens-ratio} * {002-token-ms-ratio}"),
    ],
)
def test_the_query_of_each_kind_of_check(opened: Open, id_: str, link: str, code: str) -> None:
    app = opened(claim=id_)
    assert not app.exception
    assert any(code in text for text in codes(app))
    assert [url.startswith(link) for url in links(app)] == ([True] if link else [])
    assert f"python -m engine claims {id_}" in words(app)


def test_what_is_not_testable_says_what_would_have_to_be_there(opened: Open) -> None:
    said = words(opened(claim="002-time-qwen-lp"))
    assert "Needs the run of Qwen" in said and "python -m engine import FILE" in said


# --- verdicts that are missing, old or damaged --------------------------------------------------------------------


def test_without_verdicts_claims_are_listed_and_can_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    monkeypatch.setattr(verdicts, "load", lambda: None)
    app = opened(claim="000-junk-share")
    assert f"{len(ROWS)} not checked yet" in words(app)
    assert "No verdict has been computed yet" in words(app)
    assert "This claim has not been checked yet" in words(app)
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "data" / "claims").iterdir()}
    app.button(key="judge").click().run()
    assert not app.exception and not app.error
    assert "lost when the app stops" in words(app)
    assert "One thing, two figures" in words(app)
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "data" / "claims").iterdir()} == before


def test_a_damaged_file_of_verdicts_is_one_message_and_claims_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    damaged = tmp_path / "verdicts.json"
    damaged.write_text('{"verdicts": [', encoding="utf-8")
    monkeypatch.setattr(verdicts, "load", partial(verdicts.load, damaged))
    app = opened(view="All claims")
    (error,) = app.error
    assert "make claims" in error.value
    assert f"{len(ROWS)} claims" in words(app) and not app.exception


def test_old_verdicts_say_what_changed_and_hold_until_somebody_judges(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = verdicts.load()
    assert last is not None
    old: Judgement = replace(last, claims_sha256="", versions="{}")
    monkeypatch.setattr(verdicts, "load", lambda: old)
    said = words(opened())
    assert "the claims" in said and "the versions of what computes changed" in said
    assert "Checked " in said


def test_a_store_without_the_runs_says_so_and_judges_them_untestable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    app = opened(claim="002-cannot-be-faster")
    assert "the stored runs changed" in words(app)
    assert "The open store does not have them" in words(app)
    assert "does not hold them" not in words(opened(claim="002-decomposition"))
    app.button(key="judge").click().run()
    assert not app.exception
    assert "The store does not hold the runs that the query asks for" in words(app)
    assert not app.warning


def test_checks_that_cannot_be_computed_are_one_message(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(store: object) -> None:
        raise FileFormatError("the claim x has the unknown check 'y'", "Mend it")

    monkeypatch.setattr(verdicts, "judge_all", fail)
    app = opened()
    app.button(key="judge").click().run()
    (error,) = app.error
    assert error.value.replace("\\", "") == "The claim x has the unknown check 'y'. Mend it"
    assert not app.exception


def test_damaged_claims_are_one_message(monkeypatch: pytest.MonkeyPatch, opened: Open) -> None:
    def fail() -> None:
        raise FileFormatError("'000.toml' is no file of claims", "Mend it there")

    monkeypatch.setattr(evidence_store, "claims", fail)
    app = opened()
    (error,) = app.error
    assert "is no file of claims" in error.value
    assert not app.exception and not app.tabs


# --- untrusted text -----------------------------------------------------------------------------------------------


def test_a_claims_text_is_shown_as_it_is_written(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[PLACES["000-junk-share"]]
    hostile = "# :red[x] <img src=x onerror=alert(1)> [a](http://b.c)\u202e."
    claims = [replace(row.claim, statement=hostile, subject=hostile, highlight=True)]
    monkeypatch.setattr(evidence_store, "claims", lambda: tuple(claims))
    for app in (opened(), opened(claim=row.id)):
        shown = "\n".join(one.value for one in (*app.markdown, *app.caption) if "onerror" in one.value)
        assert shown and "<img" not in shown.replace("\\<img", "") and "\u202e" not in shown
        assert "\\[a\\]\\(http" in shown
        assert not app.exception


def test_what_the_group_reader_misreads_is_told_with_figures_of_stored_runs(opened: Open, tmp_path: Path) -> None:
    app = opened()
    assert not app.exception
    said = words(app)
    runs = misread_by_run(DEMO_STORE, DEMO_STORE.found().entries)
    first = runs[0]
    assert f"In {first.misread} blocks of {first.blocks} (" in said
    assert f" of {first.model}'s run under group-v2.1" in said and f"by up to {first.most_ang:.2f} Å" in said
    rows = app.dataframe[-1].value
    assert rows["misread"].iloc[0] == first.misread and set(rows["origin"]) == {"measured"}


def test_without_a_misread_block_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    app = _open()
    assert "No stored run has a block that the group's reader misreads." in words(app) and not app.dataframe


# --- the lost third -------------------------------------------------------------------------------------------------


def test_the_lost_third_is_answered_model_by_model(opened: Open) -> None:
    first, app = opened(), opened(view="The lost third")
    claims = {claim.id: claim.reported for claim in load_claims()}
    for shown in (first, app):  # on the first screen too, with the figures of the claims
        fell = f"fell from {claims[lost_third.WITHOUT_LP]} to {claims[lost_third.UNDER_LP]}"
        assert fell in words(shown)
    assert lost_third.QUESTION in words(first)
    assert not app.exception and not app.error
    documents = {document["model"]: document for document in load_all(Store.open().places)}
    said = words(app)
    for model, document in documents.items():
        change = document["reordered"] and document["reordered"]["cov_r"]
        assert not change or f"{model} {lost_third.points(change)} (" in said
    assert len(app.get("plotly_chart")) == 4
    drawn = " ".join(f"{chart.proto.alt} {chart.proto.spec}" for chart in app.get("plotly_chart"))
    assert not re.search(r": [+-]\d|\d%[ .;<]", drawn), "figures of hovers are written as those of texts"
    model = app.segmented_control(key=lost_third.MODEL)
    assert set(model.options) == documents.keys()
    for name in documents:
        model.set_value(name).run()
        assert not app.exception
        lanes = documents[name]["lanes"]
        assert list(app.dataframe[0].value["lane"]) == [lane["words"] for lane in lanes]
        assert list(app.dataframe[0].value["COV-R"]) == [100 * lane["zero"]["cov_r"] for lane in lanes]
        assert app.dataframe[0].proto.columns.count("%.1f %%") == 4, "65.6 % as in the sentences, not 65.63%"


def test_a_damaged_result_of_the_lost_third_is_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    (document, *_) = load_all([verdicts.SHIPPED])
    for lane in document["lanes"]:
        lane["zero"]["cov_r"] = None  # of molecules without references
    for name, content in (("a", "[" * 100_000), ("b", json.dumps(document))):
        (tmp_path / "lost_third").mkdir(exist_ok=True)
        (tmp_path / "lost_third" / f"{name}.json").write_text(content)
    assert not _open().exception
    app = _open(view="The lost third")
    assert not app.exception and app.segmented_control(key=lost_third.MODEL).options == [document["model"]]
    assert "a.json' is no result of `lost-third`: its lists" in words(app)


def test_a_store_without_the_lost_third_names_its_command(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_third, "load_usable", lambda _places: ([], []))
    assert "make lost-third MODEL=demo-qwen" in words(opened(view="The lost third"))
