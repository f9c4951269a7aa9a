"""The Drift inspector's logic, by the state of its page, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from engine.inspection.sample import inspect_sample
from engine.paths import ROOT
from engine.store.store import Store, temporary_files
from pages._drift import molecules
from pages._drift.molecules import FOLD
from pages._kit.atoms import atom_rows
from pages._shared.components.molecule2d import picked_atom
from tests.engine.inspection.made import DEMO_STORE, sample_row, write_run
from tests.pages.drift_stores import (
    BARE,
    CUT,
    EXACT,
    HOSTILE,
    WITH_JUNK,
    WITH_STEPS,
    WORST,
    add_bare,
    add_hostile,
    add_imported,
    add_verdicts,
    store_at,
    with_demo,
)
from tests.service_harness import ended

PAGE = str(ROOT / "pages" / "drift.py")
Open = Callable[..., AppTest]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all: nothing here writes to it."""
    folder = tmp_path_factory.mktemp("drift")
    store = with_demo(folder / "store", WITH_JUNK, EXACT)
    add_bare(store)
    add_hostile(store)
    add_imported(store, folder)
    return folder / "store"


@pytest.fixture
def opened(place: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(place))
    monkeypatch.setattr(molecules, "ROWS_PER_PAGE", 100)  # all in one page, to be counted
    return _open


def _open(**query: str | list[str]) -> AppTest:
    """With the table of molecules unfolded."""
    app = AppTest.from_file(PAGE, default_timeout=120)
    app.session_state[f"kept {FOLD}"] = True
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def table(app: AppTest) -> pd.DataFrame:
    """Of molecules."""
    return next(one.value for one in app.dataframe if "drifts" in one.value)


def ticked(app: AppTest) -> set[str]:
    return set(json.loads(app.session_state["shown"])["runs"])


def words(app: AppTest) -> str:
    shown = (*app.markdown, *app.caption, *app.info, *app.error)
    return "\n".join(one.value for one in shown).replace("\\", "")


def query(app: AppTest, name: str) -> str | None:
    values = app.query_params.get(name)
    return None if not values else values[-1] if isinstance(values, list) else str(values)


# --- which runs ---------------------------------------------------------------------------------------------------


def test_the_first_visit_opens_the_newest_run_with_junk_where_steps_are_kept(opened: Open) -> None:
    app = opened()
    assert not app.exception and not app.error
    assert ticked(app) == {WITH_JUNK} and len(table(app)) == 64
    assert "probabilities by the run" in str(opened(sample=str(WITH_STEPS)).get("bidi_component")[-1].proto)
    assert list(table(app)["sample_id"])[:3] == WORST[:3]


def test_a_run_is_named_by_a_part_of_its_name(opened: Open) -> None:
    app = opened(run=["qwen-final-exact", "bare"])
    assert ticked(app) == {EXACT, BARE}
    assert all(re.fullmatch(r"\S+, (exact|group-v2.1)", run) for run in table(app)["run"])


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing", "There is no run 'nothing' with samples"), ("final", "There are 2 runs like 'final'")],
)
def test_a_name_that_fits_no_run_or_two_is_one_message(opened: Open, name: str, said: str) -> None:
    app = opened(run=name)
    (error,) = app.error
    assert said in error.value.replace("\\", "")
    assert not app.exception and len(app.dataframe) == 1


def test_an_empty_store_and_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    assert "python -m engine run" in words(_open())
    broken = tmp_path / "runs" / "run_id=broken"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{", encoding="utf-8")
    app = _open()
    assert [expander.label for expander in app.expander] == ["1 entry of the store is damaged"]
    assert "run_id=broken" in words(app)


@pytest.fixture
def passing() -> Iterator[str]:
    """A run of the live page that is not saved."""
    run_id = "20990101-000000-live"
    write_run(Store(temporary_files()), run_id, [sample_row(0, text="[C]<1.0,2.0,3.0>", smiles="C", atoms=1)])
    yield run_id
    temporary_files().remove(f"runs/run_id={run_id}")


def test_an_unsaved_run_is_shown_by_its_whole_name_and_can_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passing: str
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    assert "Three ways to get one" not in words(_open(run=passing))
    assert "Three ways to get one" in words(_open())
    app = _open(run=passing, sample="0")
    assert "Not saved" in words(app)
    app.text_input(key=f"label-{passing}").set_value("mine")
    app.button(key=f"keep-{passing}").click().run()
    assert not app.exception and not app.error
    assert "Not saved" not in words(app)
    assert store_at(tmp_path).entry(passing).row["label"] == "mine"


# --- the table ----------------------------------------------------------------------------------------------------


def test_filters_and_order(opened: Open) -> None:
    app = opened(run=WITH_JUNK)
    app.segmented_control(key="show").set_value("Cut").run()
    assert (table(app)["cut_blocks"] > 0).all() and len(table(app)) == CUT
    app.segmented_control(key="show").set_value(None).run()
    app.selectbox(key="order").set_value("Most tokens").run()
    assert table(app)["tokens"].is_monotonic_decreasing
    app.selectbox(key="first").set_value("10").run()
    assert len(table(app)) == 10
    app.text_input(key="contains").set_value("no such SMILES").run()
    assert "No molecule matches the filters" in words(app)
    app.button(key="drop_filters").click().run()
    assert len(table(app)) == 64
    assert not app.exception


def test_a_bar_filters_and_its_chip_lets_go(opened: Open) -> None:
    app = opened(run=WITH_JUNK, bin="element~C~2", by="Element")
    few = len(table(app))
    assert 0 < few < 64
    assert app.button(key="bar_chip").label.replace("\\", "") == "Only molecules with drift +2 · element C"
    app.button(key="bar_chip").click().run()
    assert len(table(app)) == 64
    assert query(app, "bin") is None


def test_the_bar_of_cut_blocks_filters_beside_the_other_filters(opened: Open) -> None:
    app = opened(run=WITH_JUNK, bin="cut")
    assert len(table(app)) == CUT and (table(app)["cut_blocks"] > 0).all()
    app.segmented_control(key="show").set_value("With junk").run()
    both = len(table(app))
    assert 0 < both <= CUT
    app.button(key="bar_chip").click().run()
    assert both < len(table(app)) <= 64


def test_next_and_previous_walk_the_table(opened: Open) -> None:
    app = opened(run=WITH_JUNK, order="As written", sample="1", atom="3")
    app.button(key="go1").click().run()
    assert (query(app, "sample"), query(app, "atom")) == ("2", None)
    app.button(key="go-1").click().run()
    app.button(key="go-1").click().run()
    assert query(app, "sample") == "0"
    assert app.button(key="go-1").disabled


def test_a_sample_that_the_filters_leave_out_stays_open(opened: Open) -> None:
    app = opened(run=WITH_JUNK, show="Clean", sample="1")
    assert "hidden by the filters" in words(app)
    assert "sample 1" in words(app)


def test_a_sample_that_is_not_there_is_one_message(opened: Open) -> None:
    app = opened(run=WITH_JUNK, sample="64")
    assert "has no sample 64" in app.error[0].value.replace("\\", "")
    assert len(table(app)) == 64


# --- one molecule -------------------------------------------------------------------------------------------------


def test_a_token_selects_its_atom_and_an_atom_lets_go_of_the_token(opened: Open, place: Path) -> None:
    one = inspect_sample(store_at(place), WITH_JUNK, 13)
    (column, *_) = next(
        row.columns for row in atom_rows(one.alignment, one.molecule.elements, one.blocks) if row.atom == 5
    )
    app = opened(run=WITH_JUNK, sample="13")
    app.session_state["drift_atoms"] = picked_atom(column)
    app.run()
    assert (query(app, "token"), query(app, "atom")) == (str(column), "5")
    app.session_state["drift_drawing"] = picked_atom(2)
    app.run()
    assert (query(app, "token"), query(app, "atom")) == (None, "2")
    app.session_state["drift_drawing"] = picked_atom(None)
    app.run()
    assert query(app, "atom") is None


def test_a_pick_names_the_sample_that_was_opened_without_being_named(opened: Open) -> None:
    app = opened()
    app.session_state["drift_drawing"] = picked_atom(0)
    app.run()
    assert (query(app, "run"), query(app, "sample"), query(app, "atom")) == (WITH_JUNK, str(WORST[0]), "0")


def test_addresses_that_do_not_read_are_as_if_they_were_not_there(opened: Open) -> None:
    app = opened(run=WITH_JUNK, sample="13", atom="999", token="-4", bin="element~C~many", show="Nonsense")
    assert not app.exception and not app.error
    assert "**Atom" not in words(app)
    assert len(table(app)) == 64


def test_hostile_text_is_escaped(opened: Open) -> None:
    app = opened(run=HOSTILE, atom="1")
    assert not app.exception
    assert r"\<img src\=x" in "".join(one.value for one in app.markdown)
    assert "\u202e" not in "".join(one.value for one in (*app.markdown, *app.caption))
    assert "\u202e" not in table(app).to_string()
    assert "u202e" in str(app.get("bidi_component")[-1].proto)


def test_imported_text_says_what_cannot_be_shown(opened: Open) -> None:
    app = opened(run="imported", sample="1")
    assert "Only the text is stored" in words(app)
    assert "cannot be computed" in words(app)
    assert not [button for button in app.button if button.key == "ask-steps"]


def test_a_run_of_which_next_to_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    broken = {"smiles": "no SMILES at all", "text": None, "passed": False, "clean": False}
    write_run(store_at(tmp_path), "odd", [sample_row(0, **broken), sample_row(1, text="[C]<1.0,2.0,")])
    for sample, said in (("0", "There is no molecule to compare with"), ("1", "The run does not name its tokenizer")):
        app = _open(run="odd", sample=sample)
        assert not app.exception and not app.error
        assert said in words(app)
    app = _open(run="odd", view="What the LP did")
    assert not app.exception and len(app.info) == 2
    assert "its junk is unknown" in words(_open(run="odd", view="Junk lexicon"))


# --- scoring with a model -----------------------------------------------------------------------------------------


def test_a_run_without_steps_is_scored_and_says_by_whom(opened: Open) -> None:
    app = opened(run=BARE, sample="0")
    assert "no probabilities stored" in str(app.get("bidi_component")[-1].proto)
    app.button(key="ask-steps").click().run()
    (job,) = [score.job for score in app.session_state["scores"].values() if score.job]
    ended(job)
    app.run()
    assert not app.exception and not app.error
    rows = str(app.get("bidi_component")[-1].proto)
    assert "probabilities by demo-llama:final" in rows and "p_raw" in rows


def test_what_the_cuts_cost_is_asked_and_called_an_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    (cut,) = DEMO_STORE.rows(
        "SELECT sample_id FROM samples WHERE run_id = $run ORDER BY cut_blocks DESC, tokens LIMIT 1", {"run": WITH_JUNK}
    )
    add_bare(store_at(tmp_path), [cut["sample_id"]])
    app = _open(run=BARE)
    assert "greedy continuation" not in str(app.get("bidi_component")[-1].proto)
    app.button(key="ask-costs").click().run()
    (job,) = [score.job for score in app.session_state["scores"].values() if score.job]
    ended(job)
    app.run()
    assert not app.exception and not app.error
    rows = str(app.get("bidi_component")[-1].proto)
    assert "by the greedy continuation of demo-llama:final" in rows and "the model would have written" in rows


def test_scoring_can_be_stopped(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting:
        def submit(self, *_: object, **__: object) -> Any:
            self.job = Mock()
            self.job.poll.return_value = Mock(has_ended=False, state="waiting", ahead=2)
            return self.job

    waiting = Waiting()
    monkeypatch.setattr("pages._drift.scoring.service", lambda: waiting)
    app = opened(run=BARE, sample="0")
    app.button(key="ask-steps").click().run()
    assert "demo-llama:final: waiting: 2 ahead of you" in words(app)
    app.button(key="ask-stop").click().run()
    waiting.job.stop.assert_called_once_with()
    assert app.button(key="ask-steps").label == "Compute token probabilities"


# --- junk, and what the LP did ------------------------------------------------------------------------------------


def test_the_junk_lexicon_of_a_run(opened: Open) -> None:
    app = opened(run=[WITH_JUNK, EXACT], view="Junk lexicon")
    count = app.dataframe[1].value["count"]
    assert re.search(rf"\b{count.sum():,} junk tokens in \d\d samples", words(app)) and count.sum() > 100
    assert count.is_monotonic_decreasing and "mean_p_raw" in app.dataframe[1].value
    app.selectbox(key="one_run").set_value(EXACT).run()
    assert "No block contains junk" in words(app)
    assert not app.exception


def test_what_the_lp_did_to_the_model_and_what_is_missing_for_it(opened: Open) -> None:
    app = opened(run=EXACT, view="What the LP did")
    assert "exact leaves the model what it would have written" in words(app) and len(app.get("plotly_chart")) >= 4
    assert app.dataframe[-1].value["place"].iloc[0] == "0 to 10 %"
    bare = opened(run=BARE, view="What the LP did")
    assert {button.key for button in bare.button} >= {"compute-drift_lp", "compute-drift_lp_cost"}


# --- verdicts on molecules ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    store = with_demo(folder, EXACT)
    add_verdicts(store, EXACT)
    return folder


def test_a_wrong_molecule_is_found_named_and_shown(judged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(judged))
    app = _open()
    assert table(app)["checks"].iloc[0] == "internal steric clash, stereo", "the worst comes first"
    assert set(table(app)["checks"].iloc[1:]) == {"right"}
    assert "Clash" in str(app.main)
    app = _open(show="Clash")
    assert list(table(app)["sample_id"]) == [0]
    assert "wrong: stereo, internal steric clash" in words(app)
    assert "per heavy atom; heavy atoms move 0.25 Å" in words(app).replace("\\", "")
    assert table(app)["strain_kcal"].iloc[0] == 7.5 > table(app)["strain_kcal_per_atom"].iloc[0] > 0
    button = app.button(key="failed-0")
    assert button.label.replace("\\", "") == "stereo: mirrored (atom 1)"
    button.click().run()
    assert query(app, "atom") == "1"
    of_texts = next(frame.value for frame in app.dataframe if "what" in frame.value)
    assert list(of_texts["text"]) == ["clean"] * 2 and of_texts["share"].iloc[0] == 100 * 63 / 64
    assert list(of_texts["judged"]) == [64, 64]


def test_without_verdicts_no_filter_and_no_column_speaks_of_them(opened: Open) -> None:
    app = opened(run=BARE)
    assert "checks" not in table(app).columns
    assert "Clash" not in str(app.main)
