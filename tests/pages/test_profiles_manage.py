"""Work on traces from the Profiles page: forms, what they hand in, what becomes of it. No command is carried out."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.cli.main import build_parser
from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.reported import publish_reported
from engine.runner.progress_file import PartProgress
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._profiles.manage import TRACES, is_of_traces, pair_of
from pages._shared.managing.entry_form import why_read_only
from pages._shared.managing.tasks import RUNS
from tests.engine.profile.test_ingest import event
from tests.engine.store.stored_runs import store_at
from tests.pages.manage_pages import Board, look_for_files, query, words
from tests.pages.profile_traces import both, captured, hostile, operators

PAGE = """
from engine.store.store import Store
from pages._profiles import manage, traces
store = Store.open().snapshot()
runs = {entry.id: entry.row for entry in store.found().entries}
chosen, _ = traces.query_of(runs).read(store.found(traces.TRACE))
manage.show(store, chosen)
"""
TASK = ["trace", "add", "--", "x.json"]


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board.used(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def opened(**named: str | list[str]) -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=60)
    for name, value in named.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def told(board: Board, what: list[str], *parts: PartProgress, state: str = "done", **more: object) -> None:
    """A task of these words."""
    task = board.tell(state, *parts, title="a task", **more)  # type: ignore[arg-type]
    task.words = tuple(what)


def kept(store: Store, tmp_path: Path) -> Entry:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [event("cpu_op", "aten::mm", 0, 10)]}))
    return add_trace(store, path, TraceMetadata(label="kept"), keep_file=True)


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_of_this_machine_are_handed_in_with_what_is_said_of_them(
    board: Board, store: Store, tmp_path: Path
) -> None:
    control, _ = both(store)
    (tmp_path / "in").mkdir()
    for name in ("one.json", "two [x](y).json.gz"):
        (tmp_path / "in" / name).write_text("{}")
    app = look_for_files(opened(
        traces_from="On this machine", traces_paths=f"{tmp_path}/in/*", trace_label="mine  too",
        trace_run=str(control.row["run_id"]), trace_keep="true", trace_events="true", trace_partial="true",
        trace_tokens="7", trace_passes="3",
    ))  # fmt: skip
    assert "2 files: one.json, two [x](y).json.gz" in words(app)
    app.button("read_traces").click().run()
    ((title, handed, inputs, _),) = board.handed
    assert (title, inputs) == ("Import of 2 files", [])
    args = build_parser().parse_args(handed)
    assert (args.run_of, args.label, args.tokens, args.samples, args.passes) == (
        control.row["run_id"],
        "mine too",
        7,
        None,
        3,
    )
    assert args.keep and args.events and args.partial
    assert [Path(file).name for file in args.files] == ["one.json", "two [x](y).json.gz"]


def test_without_more_the_command_has_no_more(board: Board, tmp_path: Path) -> None:
    (tmp_path / "-one.json").write_text("{}")
    app = look_for_files(opened(traces_from="On this machine", traces_paths=f"{tmp_path}/-one.json"))
    app.button("read_traces").click().run()
    assert board.handed[0][1] == ["trace", "add", "--", f"{tmp_path}/-one.json"]


def test_paths_that_mean_nothing_are_told(board: Board, tmp_path: Path) -> None:
    app = look_for_files(
        opened(traces_from="On this machine", traces_paths=f"{tmp_path}/none-*.json", trace_run="no such run")
    )
    assert "matches no file" in words(app) and app.button("read_traces").disabled
    assert opened().button("read_traces").disabled


# --- what became of it ----------------------------------------------------------------------------------------------


def test_a_task_at_work_and_one_that_is_another_pages(board: Board, store: Store) -> None:
    told(board, TASK, PartProgress(0, 2, "running", file="x.json", done=12_000, work=0.25), state="running")
    told(board, ["run", "--model", "m"], state="running")
    told(board, ["logits", "add"], state="running")
    app = opened()
    assert "x.json · 12,000 events" in app.get("progress")[0].proto.text.replace("\\", "")
    assert len(app.get("progress")) == 1 and "running for" in words(app)


def test_what_came_in_is_told_with_what_was_odd(board: Board, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "B", "name": "x"}, event("cpu_op", "aten::mm", 0, 10)]}))
    entry = add_trace(store, path, TraceMetadata(label="<b>[x](http://a.b)"))
    told(
        board,
        TASK,
        PartProgress(0, 2, "done", file="odd.json", made=entry.id),
        PartProgress(1, 2, "failed", file="y", error="no <b>"),
    )
    app = opened()
    assert "1 trace, 1 left out in 75 s" in words(app)
    assert (
        "1 event" in words(app)
        and "with only a begin or an end: left out" in words(app)
        and "y**, left out" in words(app)
    )
    (link,) = app.link_button
    assert (link.label, link.proto.url) == ("Open", f"profiles?control={entry.id}")
    raw = "\n".join(one.value for one in (*app.caption, *app.markdown))
    assert "<b>" not in raw and "[x](" not in raw


def test_captured_runs_are_compared_by_their_lps(board: Board, store: Store) -> None:
    control, test = both(store)
    runs = [PartProgress(n, 2, "done", str(entry.row["run_id"])) for n, entry in enumerate((test, control))]
    told(board, ["run", "--profile", "--lp", "none"], *runs)
    app = opened()
    (link,) = app.link_button
    assert (link.label, link.proto.url) == ("Compare them", f"profiles?control={control.id}&test={test.id}")
    third = captured(store, "group-v2.1", operators(("mm", 5)))
    assert pair_of(store, [test, third, control]) == (control.id, third.id)
    assert pair_of(store, [test]) == (test.id, None)


def test_a_run_whose_window_never_began_says_so(board: Board) -> None:
    told(board, ["run", "--profile"], PartProgress(0, 1, "done", "a-run"))
    app = opened()
    assert "No trace: the runs ended before their window began" in words(app) and not app.link_button


def test_which_tasks_are_whose(board: Board) -> None:
    tasks = {" ".join(what): board.tell("waiting") for what in (["trace"], ["run"], ["run", "--profile"], ["logits"])}
    for text, task in tasks.items():
        task.words = tuple(text.split())
    assert [text for text, task in tasks.items() if is_of_traces(task)] == ["trace", "run --profile"]
    assert [text for text, task in tasks.items() if RUNS.is_own(task)] == ["run", "run --profile"]
    assert not TRACES.can_resume and RUNS.can_resume


# --- capture --------------------------------------------------------------------------------------------------------


def test_a_capture_is_a_command_that_anybody_may_copy(board: Board) -> None:
    app = opened(manage="Record", run_from="SMILES", run_smiles="CC=O\nCCO", profile_steps="12", profile_skip="3")
    command = shlex.split(str(app.code[-1].value))
    assert command[:3] == [".venv/bin/python", "-m", "engine"]
    args = build_parser().parse_args(command[3:])
    assert args.profile and (args.profile_steps, args.profile_skip) == (12, 3)
    assert (args.lp, args.smiles) == (["none", "exact"], ["CC=O", "CCO"])
    assert "2 runs**, each with its trace, of 2 molecules" in words(app)
    app.button("start_capture").click().run()
    ((title, handed, _, _),) = board.handed
    assert title.startswith("Profile of ") and handed[0] == "run" and "--profile" in handed
    assert any(word.startswith("--threads=") for word in handed)


def test_a_capture_that_cannot_be_says_why(board: Board) -> None:
    app = opened(manage="Record")
    app.multiselect("profile_lp").set_value([]).run()
    assert "Choose at least one LP." in words(app) and not app.code
    app = opened(manage="Record", run_from="SMILES", run_smiles="not a molecule")
    assert "Correct or remove the lines above" in words(app) and not app.code


# --- one trace ------------------------------------------------------------------------------------------------------


def test_a_label_and_notes_of_ones_own(store: Store) -> None:
    control, _ = both(store)
    app = opened(manage="One trace", trace=control.id)
    app.text_input[0].input("  my   trace ")
    app.text_area[0].input("seen")
    app.button[0].click().run()
    row = store.entry(control.id, TRACE).row
    assert (row["label"], row["notes"]) == ("my trace", "seen")


def test_its_run_and_its_file(store: Store, tmp_path: Path) -> None:
    control, _ = both(store)
    app = opened(manage="One trace", trace=control.id)
    urls = [one.proto.url for one in app.link_button]
    assert urls == [f"compare?control={control.row['run_id']}", f"drift?run={control.row['run_id']}"]
    (button,) = app.get("download_button")
    assert button.proto.disabled
    entry = kept(store, tmp_path)
    (button,) = opened(manage="One trace", trace=entry.id).get("download_button")
    assert not button.proto.disabled and "Perfetto" in button.proto.help
    lost = captured(store, "lost", operators(("mm", 5)))
    store.remove(str(lost.row["run_id"]))
    assert "which this store does not have" in words(opened(manage="One trace", trace=lost.id))


def test_a_trace_goes_with_its_file_and_leaves_the_address(store: Store, tmp_path: Path) -> None:
    entry, (control, _) = kept(store, tmp_path), both(store)
    app = opened(manage="One trace", trace=entry.id, control=entry.id, test=control.id)
    app.button(f"remove-{entry.id}").click().run()
    assert entry.id not in {one.id for one in store.found(TRACE).entries}
    assert not Path(store.home.path(str(entry.row["file"]))).exists()
    assert (query(app, "control"), query(app, "trace")) == (control.id, None)


def test_what_ships_is_only_read(store: Store, tmp_path: Path) -> None:
    elsewhere = publish_reported(store_at(tmp_path / "demo"))[0]
    assert "cannot be changed" in why_read_only(store, elsewhere, "trace")
    assert why_read_only(store, captured(store, "none", operators(("mm", 5))), "trace") == ""


def test_an_empty_store_and_hostile_names(store: Store) -> None:
    assert "The store holds no trace yet" in words(opened(manage="One trace"))
    entry = hostile(store)
    app = opened(manage="One trace", trace=entry.id)
    assert app.selectbox[0].value == entry.id
    assert not any("<img" in one.value for one in (*app.markdown, *app.caption))
