"""Work on logs from the Logit health page: forms, what they hand in, what becomes of it. No command is carried out."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.cli.main import build_parser
from engine.errors import RunError
from engine.runner.progress_file import PartProgress
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._logits.manage import ids_of
from tests.engine.logits.logs import clean, new_log, objects, text, write
from tests.pages.logit_logs import HOSTILE, LONG, OVERRIDE, add, store_at
from tests.pages.manage_pages import Board, command, look_for_files, query, words

PAGE = """
import streamlit as st
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._logits import manage, logs
store = Store.open()
chosen, _ = logs.QUERY.read(store.found(LOGIT_LOG))
manage.show(store, chosen)
"""


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board.used(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    made = store_at(tmp_path)
    monkeypatch.setenv("DRIFTSCOPE_STORE", made.home.where)
    return made


def opened(**query_: str) -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=60)
    for name, value in query_.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def raw(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.markdown, *app.caption, *app.warning, *app.error, *app.info))


# --- files --------------------------------------------------------------------------------------------------------


def test_uploads_are_handed_in_with_what_is_said_of_them(board: Board) -> None:
    app = opened()
    assert app.button("read_logs").disabled
    content = text(objects(clean(3, 4)))
    files = [
        ("one.jsonl", content, "application/json"),
        ("../two.jsonl.gz", gzip.compress(content), "application/gzip"),
    ]
    app.file_uploader[0].set_value(files)
    for name, value in (("engine", "mine  too "), ("model", "-m"), ("precision", "Q4_K_M"), ("label", " ours ")):
        app.text_input(f"log_{name}").set_value(value)
    app.run()
    assert "--engine=mine too" in command(app)
    app.button("read_logs").click().run()
    ((title, handed, inputs, _),) = board.handed
    assert title == "Import of 2 files"
    assert [name for name, _ in inputs] == ["one.jsonl", "../two.jsonl.gz"]
    args = build_parser().parse_args([*handed, "a", "b"])
    assert (args.files, args.engine, args.model) == (["a", "b"], "mine too", "-m")
    assert (args.precision, args.label) == ("Q4_K_M", "ours")
    assert app.button("read_logs").disabled, "they are imported"


def test_files_of_this_machine_are_named_before(board: Board, tmp_path: Path) -> None:
    for name in ("a.jsonl", "[b](http:c).jsonl.gz"):
        (tmp_path / name.replace("/", "_")).write_text("{}")
    app = look_for_files(opened(logs_from="On this machine", logs_paths=f"{tmp_path}/*.jsonl*"))
    assert "2 files" in words(app) and "](http" not in raw(app)
    app.button("read_logs").click().run()
    ((_, handed, inputs, _),) = board.handed
    assert (handed[:3], len(handed), inputs) == (["logits", "add", "--"], 5, [])
    app.text_area("logs_paths").set_value(f"{tmp_path}/none*").run()
    assert "matches no file" in words(app)
    assert app.button("read_logs").disabled


def test_a_task_that_is_not_taken_says_why(board: Board, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", objects(clean(3, 4)))
    app = look_for_files(opened(logs_from="On this machine", logs_paths=f"{tmp_path}/a.jsonl"))
    board.refusal = RunError(f"no room {HOSTILE}")
    app.button("read_logs").click().run()
    assert "no room" in words(app) and not re.search(r"(?<!\\)<img", raw(app))


# --- what tasks brought -------------------------------------------------------------------------------------------


def test_tasks_tell_what_came_in_and_what_was_left_out(board: Board, store: Store, tmp_path: Path) -> None:
    whole = add(store, tmp_path, "whole", clean(), team="driftscope", model="demo")
    lines = text(objects(clean(5, 4), team=HOSTILE)).splitlines(keepends=True)
    cut = new_log(store, write(tmp_path / "cut.jsonl", b"".join([*lines[:2], b"nonsense\n", *lines[2:]])[:-30]))
    parts = [
        PartProgress(0, 3, "done", file="whole.jsonl", made=whole.id),
        PartProgress(1, 3, "done", file="cut.jsonl", made=cut.id),
        PartProgress(2, 3, "failed", file=HOSTILE, error=f"no logit entry {HOSTILE}"),
    ]
    board.tell("done", *parts, title=f"Import of {HOSTILE}").words = ("logits", "add")
    app = opened()
    said = words(app)
    assert "2 logs, 1 left out in 75 s" in said
    assert f"driftscope (demo)**: 40 entries, 0 flagged, as {whole.id}" in said
    assert "The file is truncated" in said and "1 line could not be read (line 3: it is no JSON)" in said
    assert not re.search(r"(?<!\\)<img", raw(app))
    (link,) = app.link_button
    assert link.proto.url == f"logits?log={whole.id}&beside={cut.id}&view=Parity"


def test_only_tasks_about_logs_are_here(board: Board) -> None:
    board.tell("done", title="some runs")
    board.tell("running", PartProgress(0, 1, file="a.jsonl", done=1234, work=0.4), title="a log").words = (
        "logits",
        "add",
    )
    board.tell("waiting", title="a recording").words = ("run", "--log-logits", "4", "--add-log")
    app = opened()
    assert "a log" in words(app) and "a recording" in words(app) and "some runs" not in words(app)
    (bar,) = app.get("progress")
    assert (bar.proto.value, bar.proto.text.replace("\\", "")) == (40, "a.jsonl · 1,234 entries")


# --- record -------------------------------------------------------------------------------------------------------


def test_a_recording_is_one_command_that_reads(board: Board) -> None:
    app = opened(manage="Record")
    assert "**1 run** with its log, of 4 molecules" in words(app)
    app.number_input("log_first").set_value(64)
    app.text_input("run_label").set_value(" mine ")
    app.run()
    shown = command(app).split()
    app.button("start_log").click().run()
    ((title, handed, inputs, _),) = board.handed
    assert (title, inputs) == ("Log “mine”", [])
    assert shown[:4] == [".venv/bin/python", "-m", "engine", "run"] and shown[4:] == handed[2:]
    args = build_parser().parse_args(handed)
    assert (args.log_logits, args.add_log, args.logit_log, args.label) == ((64, ()), True, None, "mine")
    assert (args.model, args.lp, args.sample_size) == (["demo-llama:final"], ["none"], 4)


def test_a_recording_of_chosen_ids_and_typed_molecules(board: Board) -> None:
    app = opened(
        manage="Record", log_how="Chosen ids", log_ids="17", run_from="SMILES", run_smiles="CCO", log_lp="exact"
    )
    app.button("start_log").click().run()
    args = build_parser().parse_args(board.handed[0][1])
    assert (args.log_logits, args.smiles, args.lp) == ((0, (17,)), ["CCO"], ["exact"])
    app.text_input("log_ids").set_value("17 x").run()
    assert "whole numbers" in words(app)
    assert not [one for one in app.button if one.key == "start_log"]


@pytest.mark.parametrize(
    ("given", "words_", "problem"),
    [
        ("17, 24,25", "17,24,25", ""),
        ("17", "17,", ""),
        ("", "", "one token id"),
        ("1 1", "", "once"),
        ("-1", "", "whole numbers"),
        ("9" * 12, "", "whole numbers"),
        (" ".join(map(str, range(1_001))), "", "1,000"),
    ],
)
def test_ids(given: str, words_: str, problem: str) -> None:
    found, said = ids_of(given)
    assert found == words_ and problem in said and bool(said) == bool(problem)


# --- one log ------------------------------------------------------------------------------------------------------


def test_a_log_is_renamed_and_deleted(board: Board, store: Store, tmp_path: Path) -> None:
    assert "holds no log yet" in words(opened(manage="One log"))
    first = add(store, tmp_path, "first", clean(), model="a")
    second = add(store, tmp_path, "second", clean(seed=1), model="b")
    app = opened(manage="One log", log=first.id, beside=second.id)
    assert app.selectbox[0].value == first.id
    app.text_input[0].set_value(" mine  too ")
    app.text_area[0].set_value(OVERRIDE)
    next(one for one in app.button if one.label == "Save label, notes and tags").click().run()
    assert not app.error
    row = store.entry(first.id, LOGIT_LOG).row
    assert (row["label"], row["notes"]) == ("mine too", OVERRIDE)
    facts = app.dataframe[0].value.set_index("column")["value"]
    assert (facts["entries"], facts["origin"]) == ("40", "imported")
    assert "\u202e" not in facts["notes"]
    app.button(f"remove-{first.id}").click().run()
    assert not app.exception
    assert [entry.id for entry in store.found(LOGIT_LOG).entries] == [second.id]
    assert query(app, "log") == second.id


def test_what_was_left_out_stays_said(board: Board, store: Store, tmp_path: Path) -> None:
    lines = text(objects(clean(5, 4))).splitlines(keepends=True)
    path = write(tmp_path / "cut.jsonl", b"".join([*lines[:2], HOSTILE.encode() + b"\n", *lines[2:]])[:-30])
    entry = new_log(store, path)
    (said,) = opened(manage="One log").warning
    assert "line 3" in said.value and "truncated" in said.value
    store.annotate(entry.id, LOGIT_LOG, notes="mine")
    (said,) = opened(manage="One log").warning
    note = "1 line could not be read. The file is truncated; what could be read is here."
    assert said.value.replace("\\", "") == note


def test_strange_names_are_shown_as_they_are(board: Board, store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, "one", clean(), team=HOSTILE, model=OVERRIDE, precision=LONG, label=LONG)
    app = opened(manage="One log")
    assert not re.search(r"(?<!\\)<", raw(app)) and "\u202e" not in "".join(app.selectbox[0].options)
    assert len(app.selectbox[0].options[0]) < 300


def test_a_log_that_ships_is_read_only(board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DRIFTSCOPE_STORE")
    monkeypatch.setattr("engine.store.store.HOME", tmp_path / "home")
    app = opened(manage="One log")
    assert "ships with the project" in words(app)
    assert app.text_input[0].disabled and app.text_area[0].disabled
