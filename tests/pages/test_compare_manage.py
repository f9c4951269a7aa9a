"""Work on the store from the Compare page: forms, what they hand in, what becomes of it. No command is carried out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engine.cli.main import build_parser
from engine.runner.progress_file import PartProgress
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.reports.importing import import_report
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.store.store import DEMO, Store
from pages._compare.manage import report_bytes
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.store.reports.documents import document
from tests.engine.store.stored_runs import MADE_AT, add, begun
from tests.pages.drift_stores import HOSTILE_JUNK, OVERRIDE, add_hostile, add_imported, store_at, with_demo
from tests.pages.manage_pages import Board, opened, query, words

CONTROL, TEST = demo_run("llama", "none"), demo_run("llama", "exact")


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board.used(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


# --- watched ------------------------------------------------------------------------------------------------------


def test_a_task_at_work_tells_how_far_it_is(board: Board, place: Path) -> None:
    first = PartProgress(0, 2, "done", "a", model_alias="demo", model_step="final", lp="none", work=1.0)
    now = PartProgress(
        1, 2, "running", "b", model_alias="demo", model_step="final", lp="exact", samples=40, done=10, passed=9,
        decodes=8, clean=7, bad_blocks=2, blocks=80, tokens=1, written=10, seconds=5.0, work=0.25,
    )  # fmt: skip
    board.tell("running", first, now)
    board.tell("waiting", title="later", ahead=1)
    board.tell("waiting", title="much later", ahead=2)
    app = opened()
    said = words(app)
    assert "**2 runs** · running for 75 s" in said
    assert "waiting: next" in said and "waiting: 2 ahead of you" in said
    (bar,) = app.get("progress")
    assert bar.proto.value == 62
    told = bar.proto.text.replace("\\", "").split(" · ")
    assert told[:3] == ["2 of 2: demo:final", "exact", "10 of 40 samples"]
    assert told[3:] == [
        "2.0 per second",
        "15 s left of this run",
        "90.0 % passed",
        "80.0 % decode",
        "70.0 % clean",
        "2 of 80 blocks bad",
    ]
    stop = app.button("stop-2")
    assert stop.label == "Stop it for everyone" and "started in another browser tab" in said, "not by this one"
    stop.click().run()
    assert board.told[1][0].state == "stopped"


def test_what_a_task_brought_can_be_compared_and_cleared(board: Board, place: Path) -> None:
    with_demo(place, CONTROL, TEST)
    parts = [
        PartProgress(0, 3, "done", TEST, lp="exact"),
        PartProgress(1, 3, "done", CONTROL, lp="none"),
        PartProgress(2, 3, "done", "gone"),
    ]
    task = board.tell("done", *parts)
    app = opened()
    (link,) = app.link_button
    assert link.proto.url == f"compare?control={CONTROL}&test={TEST}"
    assert "3 runs in 75 s" in words(app)
    app.button("clear-1").click().run()
    assert task not in board._tasks


def test_an_import_tells_of_each_file(board: Board, place: Path) -> None:
    with_demo(place, CONTROL)
    hostile = "<b>[x](http://a.b)"
    parts = [
        PartProgress(0, 2, "there", CONTROL, file="x.json"),
        PartProgress(1, 2, "failed", file=hostile, error=f"no JSON {hostile}"),
    ]
    board.tell("done", *parts, log=(f"left out {hostile}",))
    app = opened()
    assert f"x.json** is in the store already, as {CONTROL}" in words(app)
    raw = "\n".join(one.value for one in app.caption)
    assert "\\<b\\>\\[x\\]" in raw and hostile not in raw
    assert app.link_button[0].label == "Open"
    board.tell("failed", error=f"there is no model {hostile}")
    assert "there is no model" in words(opened())


def test_many_ended_tasks_are_folded_away(board: Board, place: Path) -> None:
    for number in range(6):
        board.tell("done", title=f"task {number}")
    app = opened()
    assert app.expander[0].label == "2 earlier"
    folded = "".join(one.value for one in app.expander[0].markdown)
    assert "task 0" in folded and "task 1" in folded and "task 2" not in folded


# --- unfinished ---------------------------------------------------------------------------------------------------


def begun_run(home: Files, run_id: str, samples: int) -> Staging:
    """As the runner begins one: with its plan, which an import has not."""
    row = {"created_at": MADE_AT, "origin": "measured", "lp": "exact", "model_alias": "<b>", "label": "[x](http://a.b)"}
    return Staging.create(home, RUN, run_id, row, plan={}, samples=samples)


def test_unfinished_runs_are_resumed_or_deleted(board: Board, place: Path) -> None:
    home = store_at(place).home
    stopped = begun_run(home, "stopped", 10)
    add(stopped, range(4))
    begun(home, "importing")
    begun(home, "torn")
    (place / "staging" / "torn" / "run.json").write_text("{")
    app = opened(manage="Unfinished")
    assert "4 of 10 samples" in words(app) and "damaged" in words(app)
    assert not any("[x](" in one.value or "<b>" in one.value for one in app.markdown)
    assert [one.key for one in app.button if str(one.key).startswith("resume")] == ["resume-stopped"]
    app.button("resume-stopped").click().run()
    ((title, handed, _, about),) = board.handed
    assert (title, handed[-2:], about) == ("Resume stopped", ["--resume", "stopped"], "stopped")
    for name in ("torn", "importing", "stopped"):
        app.button(f"remove-{name}").click().run()
    assert "No run is unfinished" in words(app)
    assert list((place / "staging").iterdir()) == []


def test_what_is_being_written_is_left_alone(board: Board, place: Path) -> None:
    home = store_at(place).home
    writing = begun_run(home, "writing", 3)
    writing.lock()
    begun_run(home, "queued", 3)
    board.tell("waiting", about="queued")
    app = opened(manage="Unfinished")
    assert "being written" in words(app)
    assert app.button("resume-writing").disabled and app.button("resume-queued").disabled
    app.button("remove-writing").click().run()  # as from another tab
    assert (place / "staging" / "writing").is_dir()
    writing.release()
    assert not opened(manage="Unfinished").button("resume-writing").disabled


# --- import -------------------------------------------------------------------------------------------------------


def test_uploads_are_handed_in_with_their_names(board: Board, place: Path) -> None:
    app = opened(manage="Import")
    assert app.button("import_files").disabled
    content = json.dumps(document()).encode()
    files = [("one.json", content, "application/json"), ("../two.json.gz", gzip.compress(content), "application/gzip")]
    app.file_uploader[0].set_value(files)
    app.text_input("import_label").set_value("ours ")
    app.text_input("import_tokenizer").set_value("qwen3")
    app.run()
    app.button("import_files").click().run()
    ((title, handed, inputs, _),) = board.handed
    assert title == "Import of 2 files"
    assert [name for name, _ in inputs] == ["one.json", "../two.json.gz"]
    args = build_parser().parse_args([*handed, "a", "b"])
    assert (args.files, args.label, args.tokenizer) == (["a", "b"], "ours", "qwen3")
    assert app.button("import_files").disabled, "they are imported"
    assert "another browser tab" not in words(app)


def test_files_of_this_machine_are_named_before(board: Board, place: Path, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    app = opened(manage="Import", import_from="On this machine", import_paths=f"{tmp_path}/*.json")
    assert "Nothing has been looked for yet" in words(app) and "a.json, b.json" not in words(app)
    assert app.button("import_files").disabled
    app.button("import_look").click().run()
    assert "2 files: a.json, b.json" in words(app)
    app.button("import_files").click().run()
    ((_, handed, inputs, _),) = board.handed
    assert (handed, inputs) == (["import", "--", f"{tmp_path}/a.json", f"{tmp_path}/b.json"], [])
    app.text_area("import_paths").set_value(f"{tmp_path}/none*").run()
    assert "matches no file" in words(app)
    assert app.button("import_files").disabled


# --- one run ------------------------------------------------------------------------------------------------------


def test_a_run_is_renamed_and_annotated(board: Board, place: Path) -> None:
    store = with_demo(place, CONTROL, TEST)
    app = opened(manage="One run", run=TEST)
    assert app.selectbox[0].value == TEST
    app.text_input[0].set_value(" mine  too ")
    app.text_area[0].set_value(OVERRIDE)
    next(one for one in app.button if one.label == "Save label, notes and tags").click().run()
    assert not app.error
    row = store.entry(TEST).row
    assert (row["label"], row["notes"]) == ("mine too", OVERRIDE)
    assert app.text_input[0].value == "mine too"
    assert app.dataframe[0].value.set_index("column").loc["samples", "value"] == "64"


def test_a_deleted_run_leaves_the_address(board: Board, place: Path) -> None:
    store = with_demo(place, CONTROL, TEST)
    app = opened(manage="One run", control=CONTROL, test=TEST)
    assert app.selectbox[0].value == CONTROL
    app.selectbox[0].set_value(TEST).run()
    assert query(app, "run") == TEST
    app.selectbox[0].set_value(CONTROL).run()
    app.button(f"remove-{CONTROL}").click().run()
    assert not app.exception
    assert [entry.id for entry in store.found().entries] == [TEST]
    assert (query(app, "control"), query(app, "test"), query(app, "run")) == (TEST, None, None)
    app.button(f"remove-{TEST}").click().run()
    assert "holds no run yet" in words(app)


def test_a_run_that_ships_is_read_only_and_says_why(board: Board, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.delenv("DRIFTSCOPE_STORE")
    monkeypatch.setattr("engine.store.store.HOME", place)
    app = opened(manage="One run", run=TEST)
    assert f"ships with the project and lies in {DEMO}" in words(app)
    assert app.text_input[0].disabled and app.text_area[0].disabled
    app.button(f"remove-{TEST}").click().run()  # as from a page that is old
    assert (DEMO / "runs" / f"run_id={TEST}").is_dir()
    (link,) = app.get("link_button")
    assert link.proto.url.startswith("profiles?control=") and "llama-final-exact" in link.proto.url
    app = opened(manage="One run", run="reported-002-llama-lp-1000")
    assert not app.get("link_button"), "nobody profiled it here"
    assert app.download_button[0].disabled, "a reported run has no texts"


def test_strange_runs_are_shown_as_they_are(board: Board, place: Path, tmp_path: Path) -> None:
    store = store_at(place)
    hostile = add_hostile(store)
    add_imported(store, tmp_path)
    app = opened(manage="One run", run=hostile)
    assert HOSTILE_JUNK in app.dataframe[0].value.set_index("column").loc["model_alias", "value"]
    store.annotate(hostile, label=OVERRIDE, notes="")
    app = opened(manage="One run", run=hostile)
    assert "\u202e" not in "".join(app.selectbox[0].options)
    assert "\u202e" not in app.dataframe[0].value.set_index("column").loc["label", "value"]
    assert "<img" not in "".join(one.value for one in app.markdown)


def test_the_report_file_comes_in_again(place: Path, tmp_path: Path) -> None:
    content = report_bytes(DEMO_STORE.entry(TEST))
    (tmp_path / "out.json.gz").write_bytes(content)
    entry = import_report(store_at(place), tmp_path / "out.json.gz")
    assert isinstance(entry, Entry)
    assert entry.row["samples"] == 64


def test_the_store_of_the_page_is_the_one_that_is_open(place: Path) -> None:
    assert Store.open().home.where == str(place)
