"""Several runs at once on the Compare page: their tags, and their deletion with one question and an undo."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.runner.progress_file import PartProgress
from engine.store.files import LocalFiles
from engine.store.schema import RUN
from engine.store.store import Store
from engine.store.trash import in_trash
from pages._shared.managing import undo
from tests.engine.store.stored_runs import begun, ids, written
from tests.pages.drift_stores import OVERRIDE, store_at
from tests.pages.manage_pages import Board, opened, query, words


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board.used(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    for run_id in ("a", "b", "c"):
        written(LocalFiles(tmp_path / "store"), run_id, lp="none" if run_id == "a" else "exact")
    return store_at(tmp_path / "store")


def several(*ticked: str, **more: str | list[str]) -> AppTest:
    return opened(manage="Several runs", tick=list(ticked), **more)


def tags_of(store: Store) -> dict[str, list[str] | None]:
    return {entry.id: entry.row.get("tags") for entry in store.found().entries}


# --- tags ---------------------------------------------------------------------------------------------------------


def test_tags_of_all_that_are_ticked(board: Board, store: Store) -> None:
    app = several("a", "c")
    assert app.button("add-tags").disabled and '"tags": {"hidden": true}' in app.dataframe[0].proto.columns
    app.multiselect("tags-of-ticked").set_value(["slow  disk", "的"]).run()
    app.button("add-tags").click().run()
    assert tags_of(store) == {"a": ["slow disk", "的"], "b": None, "c": ["slow disk", "的"]}
    app.multiselect("tags-of-ticked").set_value(["的"]).run()
    app.button("take-tags").click().run()
    assert tags_of(store) == {"a": ["slow disk"], "b": None, "c": ["slow disk"]}
    app.multiselect("tags-of-ticked").set_value(["x" * 41]).run()
    app.button("add-tags").click().run()
    assert tags_of(store)["a"] == ["slow disk"] and "At most 40" in app.toast[-1].value


def test_the_tags_of_one_run(board: Board, store: Store) -> None:
    app = opened(manage="One run", run="b")
    app.multiselect[0].set_value(["paper"])
    app.button[0].click().run()
    assert not app.error and tags_of(store) == {"a": None, "b": ["paper"], "c": None}
    assert app.dataframe[0].value.set_index("column").loc["tags", "value"] == "paper"


def test_a_tag_may_hold_anything(board: Board, store: Store) -> None:
    store.tag(["a"], add=[OVERRIDE])
    app = several("a")
    assert OVERRIDE not in str(app.dataframe[0].value["tags"].tolist())
    assert "\u202e" not in "".join(app.multiselect("tags-of-ticked").options)


def test_runs_are_found_by_their_tag(board: Board, store: Store) -> None:
    for run_id in map(str, range(9)):
        written(store.home, run_id)
    store.tag(["a", "3"], add=["paper"])
    store.tag(["c"], add=["slow"])
    assert list(several(own_tags="paper").dataframe[0].value["run"]) == ["a", "3"]
    assert list(several(own_contains="slow").dataframe[0].value["run"]) == ["c"]


# --- deletion -----------------------------------------------------------------------------------------------------


def test_one_question_and_an_undo(board: Board, store: Store) -> None:
    app = several("a", "c", control="b", test=["a", "c"])
    assert "This deletes **2 runs with 8 samples**" in words(app) and "You can undo it until you leave" in words(app)
    app.button("remove-ticked").click().run()
    assert not app.exception and ids(store) == ["b"]
    assert "Deleted 2 runs with 8 samples" in words(app)
    assert (query(app, "control"), query(app, "test"), query(app, "tick")) == ("b", None, None)
    app.query_params["manage"] = "Import"
    app.run()
    next(button for button in app.button if button.label == "Undo").click().run()
    assert ids(store) == ["a", "b", "c"] and in_trash(store.home) == []
    assert "Deleted" not in words(app)


def test_a_single_run_can_be_put_back_too(board: Board, store: Store) -> None:
    app = opened(manage="One run", run="b")
    app.button("remove-b").click().run()
    assert ids(store) == ["a", "c"]
    written(store.home, "b", 8)
    undo_button = next(button for button in app.button if button.label == "Undo")
    undo_button.click().run()
    assert "is there already" in app.toast[0].value and store.entry("b").row["samples"] == 8
    store.remove("b")
    next(button for button in app.button if button.label == "Undo").click().run()
    assert store.entry("b").row["samples"] == 4


def test_whose_runs_they_are(board: Board, store: Store) -> None:
    board.tell("done", PartProgress(0, 2, "done", "a"), PartProgress(1, 2, "done", "c"))
    begun(store.home, "begun")
    board.tell("stopped", PartProgress(0, 1, "running", "begun"))
    other = "started in another browser tab, perhaps by someone else"
    assert f"2 of them were {other}" in words(several("a", "b", "c"))
    assert f"1 of them was {other}" in words(several("b", "c"))
    assert other not in words(several("b"))
    assert f"It was {other}" in words(opened(manage="One run", run="a"))
    assert f"It was {other}" in words(opened(manage="Unfinished"))


def test_runs_that_ship_are_not_offered(board: Board, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(store.home.where)
    monkeypatch.delenv("DRIFTSCOPE_STORE")
    monkeypatch.setattr("engine.store.store.HOME", place.with_name("mine"))
    monkeypatch.setattr("engine.store.store.DEMO", place)
    app = several()
    assert "3 runs of the project, read-only" in words(app) and not app.dataframe
    written(LocalFiles(place.with_name("mine")), "d")
    assert list(several().dataframe[0].value["run"]) == ["d"]


def test_an_object_store_says_that_there_is_no_undo(
    board: Board, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalFiles, "can_rename", False)
    app = several("a", "b")
    assert "There is no undo in" in words(app)
    app.button("remove-ticked").click().run()
    assert ids(store) == ["c"] and app.toast[0].value == "Deleted 2 runs with 8 samples"
    assert not any(button.label == "Undo" for button in app.button)


# --- until when ---------------------------------------------------------------------------------------------------


def test_who_leaves_the_page_can_undo_no_longer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {})
    undo.page_opened("Compare runs")
    undo.delete(store, ["a"], RUN, "a")
    undo.page_opened("Compare runs")
    assert len(in_trash(store.home)) == 1
    undo.page_opened("Profiles")
    assert in_trash(store.home) == [] and ids(store) == ["b", "c"]


def test_a_closed_tab_ends_it_and_a_lost_connection_does_not(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "LOOK_S", 0.0)
    deletion = store.delete(["a"])
    undo._open.add(deletion)
    left: list[int] = []
    looks = iter([True, False, True, False, False])

    def is_present() -> bool:
        left.append(len(in_trash(store.home)))
        return next(looks)

    undo._watch(deletion, is_present)
    assert left == [1] * 5, "it was there at each look, and two misses in a row ended it"
    assert in_trash(store.home) == []
