"""Work on the store from three pages: tables of entries, imports, tasks. No command is carried out here."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.jobs.progress import PartProgress
from engine.profile.ingest import add_trace
from engine.store.files import Files
from engine.store.reports.importing import import_report
from engine.store.schema import LOGIT_LOG, REFERENCES, RUN, TRACE
from engine.store.staging import Staging
from engine.store.store import Store
from pages._compare.manage import packed_report
from tests.cli import parsed
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.logits.logs import clean, new_log, objects, text, write
from tests.engine.profile.made_events import event
from tests.engine.store.reports.documents import document
from tests.engine.store.stored_runs import MADE_AT, add, begun, store_at, written
from tests.pages.drift_stores import OVERRIDE, add_hostile, with_demo
from tests.pages.logit_logs import HOSTILE
from tests.pages.logit_logs import add as add_log
from tests.pages.manage_pages import LOGS, RUNS_PAGE, TRACES, Board, command, opened, query, words
from tests.pages.profile_traces import both

CONTROL, TEST = demo_run("llama", "none"), demo_run("llama", "exact")


@pytest.fixture(autouse=True)
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return Board.used(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


def raw(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.markdown, *app.caption, *app.warning, *app.error, *app.info))


def ids(store: Store) -> list[str]:
    return [entry.id for entry in store.found().entries]


# --- the table --------------------------------------------------------------------------------------------------------


def test_runs_are_ticked_by_ids_and_deleted_with_one_question(store: Store) -> None:
    for run_id in ("a", "b", "c"):
        written(store.home, run_id)
    app = opened(manage="Several runs", run=["a", "c"], control="a", test=["b", "c"])
    written(store.home, "later")  # it stands above them, and nothing else is ticked
    app.run()
    assert "**2 runs** (8 samples) permanently: a and c" in words(app)
    assert app.session_state["shown"].count('"run": ["a", "c"]') == 1
    app.button("remove-ticked").click().run()
    assert ids(store) == ["b", "later"]
    assert (query(app, "control"), query(app, "test"), query(app, "run")) == (None, "b", None)


def test_tags_of_all_that_are_ticked(store: Store) -> None:
    for run_id in ("a", "b", "c"):
        written(store.home, run_id)
    app = opened(manage="Several runs", run=["a", "c"])
    app.multiselect("tags-of-ticked").set_value(["slow  disk", "的"]).run()
    app.button("add-tags").click().run()
    assert [entry.row.get("tags") for entry in store.found().entries] == [
        ["slow disk", "的"],
        None,
        ["slow disk", "的"],
    ]
    app.multiselect("tags-of-ticked").set_value(["的"]).run()
    app.button("take-tags").click().run()
    assert store.entry("a").row["tags"] == ["slow disk"]
    app = opened(manage="Several runs", own_contains="disk")
    assert list(app.dataframe[0].value["run"]) == ["c", "a"]


def test_a_run_is_renamed_and_shown_with_all_that_is_known(tmp_path: Path) -> None:
    store = with_demo(tmp_path / "store", CONTROL, TEST)
    app = opened(manage="One run", run=TEST)  # an older link
    next(one for one in app.text_input if one.label == "Label").set_value(" my  x ")
    app.text_area[0].set_value(OVERRIDE)
    next(one for one in app.button if one.label == "Save label and notes").click().run()
    assert (store.entry(TEST).row["label"], store.entry(TEST).row["notes"]) == ("my x", OVERRIDE)
    facts = app.dataframe[1].value.set_index("column")["value"]
    assert facts["samples"] == "64" and "\u202e" not in facts["notes"]
    assert opened(manage="Several runs", control=CONTROL).session_state["shown"].count(f'"run": "{CONTROL}"') == 1


def test_strange_texts_are_shown_as_they_are(store: Store, tmp_path: Path) -> None:
    hostile = add_hostile(store)
    store.annotate(hostile, label=OVERRIDE)
    app = opened(manage="Several runs", run=hostile)
    assert "<img" not in raw(app) and "\u202e" not in str(app.dataframe[0].value)
    log = add_log(store, tmp_path, "one", clean(), team=HOSTILE, model=OVERRIDE)
    app = opened(LOGS, manage="One log", one=log.id)
    assert "<img" not in raw(app).replace("\\<", "") and "\u202e" not in str(app.dataframe[0].value)


def test_what_ships_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTSCOPE_STORE")
    monkeypatch.setattr("engine.store.store.HOME", tmp_path / "home")
    app = opened(manage="Several runs", run=TEST)
    assert "can be exported, not changed" in words(app) and app.button("remove-ticked").disabled
    assert not [one for one in app.button if one.key == "add-tags"] and app.text_area[0].disabled
    assert opened(manage="Several runs", run="reported-002-llama-lp-1000").download_button[0].disabled


def test_the_report_file_comes_in_again(store: Store, tmp_path: Path) -> None:
    (tmp_path / "out.json.gz").write_bytes(packed_report(DEMO_STORE.entry(TEST)))
    entry = import_report(store, tmp_path / "out.json.gz")
    assert entry.row["samples"] == 64


def test_a_trace_goes_with_its_file_and_keeps_its_run(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [event("cpu_op", "aten::mm", 0, 10)]}))
    entry, (control, _) = add_trace(store, path, {"label": "kept"}, keep_file=True), both(store)
    app = opened(TRACES, manage="One trace", trace=control.id)
    assert [one.proto.url for one in app.link_button] == [
        f"compare?control={control.row['run_id']}",
        f"drift?run={control.row['run_id']}",
    ]
    assert app.get("download_button")[0].proto.disabled
    app = opened(TRACES, manage="One trace", trace=entry.id, control=entry.id, test=control.id)
    assert not app.get("download_button")[0].proto.disabled
    app.button("remove-ticked").click().run()
    assert entry.id not in {one.id for one in store.found(TRACE).entries}
    assert not Path(store.home.path(str(entry.row["file"]))).exists()
    assert (query(app, "control"), query(app, "trace")) == (None, None)


def test_a_log_says_what_was_left_out_of_it(store: Store, tmp_path: Path) -> None:
    lines = text(objects(clean(5, 4))).splitlines(keepends=True)
    entry = new_log(store, write(tmp_path / "cut.jsonl", b"".join([*lines[:2], b"nonsense\n", *lines[2:]])[:-30]))
    store.annotate(entry.id, LOGIT_LOG, notes="mine")
    assert "1 line could not be read. The file is truncated. mine" in words(opened(LOGS, manage="One log"))


def test_reference_sets_are_listed_and_deleted(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store")
    assert "holds no reference set yet" in words(opened(manage="References"))
    from engine.chem.conformer_files import made_conformers
    from engine.chem.smiles import parse_smiles
    from engine.store.references import write_references

    made = made_conformers([parse_smiles("CCO")], 1, seed=0, mmff=False)
    write_references(store, made, label="mine", form="etkdg", source="x", origin="made")
    (name,) = [entry.id for entry in store.found(REFERENCES).entries]
    app = opened(manage="References", references=name)
    app.button("remove-ticked").click().run()
    assert store.found(REFERENCES).entries == ()


# --- unfinished -------------------------------------------------------------------------------------------------------


def begun_run(home: Files, run_id: str, samples: int) -> Staging:
    """As the runner begins one: with its plan, which an import has not."""
    row = {"created_at": MADE_AT, "origin": "measured", "lp": "exact", "model_alias": "<b>", "label": "[x](http://a.b)"}
    return Staging.create(home, RUN, run_id, row, plan={}, samples=samples)


def test_unfinished_runs_are_resumed_or_deleted(board: Board, store: Store, tmp_path: Path) -> None:
    add(begun_run(store.home, "stopped", 10), range(4))
    begun(store.home, "importing")
    begun(store.home, "torn")
    (tmp_path / "store" / "staging" / "torn" / "run.json").write_text("{")
    app = opened(manage="Unfinished", run=["stopped", "importing", "torn"])
    states = app.dataframe[0].value.set_index("run")["state"]
    assert (states["stopped"], states["torn"]) == ("stopped: 4 of 10 samples", "damaged")
    app.button("resume-ticked").click().run()
    ((title, handed, _, about),) = board.handed
    assert (title, handed[-2:], about) == ("Resume stopped", ["--resume", "stopped"], "stopped")
    app.button("remove-ticked").click().run()
    assert not list((tmp_path / "store" / "staging").iterdir())


def test_what_is_being_written_is_left_alone(board: Board, store: Store) -> None:
    writing = begun_run(store.home, "writing", 3)
    writing.lock()
    begun_run(store.home, "queued", 3)
    board.tell("waiting", about="queued")
    app = opened(manage="Unfinished", run=["writing", "queued"])
    assert app.button("resume-ticked").disabled and app.button("remove-ticked").disabled
    writing.release()
    assert not opened(manage="Unfinished", run="writing").button("resume-ticked").disabled


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_a_task_at_work_tells_how_far_it_is_and_can_be_stopped(board: Board) -> None:
    first = PartProgress(0, 2, "done", run_id="a", model_alias="demo", model_step="final", lp="none", work=1.0)
    now = PartProgress(
        1, 2, "running", run_id="b", model_alias="demo", model_step="final", lp="exact", samples=40, done=10, passes=9,
        decodes=8, clean=7, bad_blocks=2, blocks=80, tokens=1, written=10, seconds=5.0, work=0.25,
    )  # fmt: skip
    board.tell("running", first, now)
    board.tell("waiting", title="much later", ahead=2)
    app = opened()
    assert "**2 runs** · running for 75 s" in words(app) and "waiting: 2 ahead of you" in words(app)
    (bar,) = app.get("progress")
    told = bar.proto.text.replace("\\", "").split(" · ")
    assert (bar.proto.value, told[:4]) == (62, ["2 of 2: demo:final", "exact", "10 of 40 samples", "2.0 per second"])
    assert told[4:] == [
        *("15 s left of this run", "90.0 % passed", "80.0 % decode", "70.0 % clean", "2 of 80 blocks bad"),
    ]
    app.button("stop-2").click().run()
    assert board.told[0][0].job.state == "stopped"


def test_a_stopped_task_says_what_was_begun(board: Board) -> None:
    board.tell(
        "stopped", PartProgress(0, 4, "done", run_id="there"), PartProgress(1, 4, run_id="begun"), title="4 runs"
    )
    board.tell("stopped", title="none")
    board.tell("running", elapsed_s=1.2)
    app = opened()
    assert "stopped after 75 s: 1 of 4 done, 1 begun, 2 not begun" in words(app)
    assert "stopped after 75 s; nothing was begun" in words(app)
    (bar,) = app.get("progress")
    assert bar.proto.text.replace("\\", "") == "Starting Python and the model, 1 s"


def test_what_a_task_brought_can_be_compared_and_cleared(board: Board, tmp_path: Path) -> None:
    with_demo(tmp_path / "store", CONTROL, TEST)
    parts = [PartProgress(0, 3, "done", run_id=TEST, lp="exact"), PartProgress(1, 3, "done", run_id=CONTROL, lp="none")]
    task = board.tell("done", *parts, PartProgress(2, 3, "done", run_id="gone"), log=("a line",))
    app = opened()
    assert app.link_button[0].proto.url == f"compare?control={CONTROL}&test={TEST}" and "2 runs in 75 s" in words(app)
    assert "a line" in [one.value for one in app.code]
    app.button("clear-1").click().run()
    assert task not in board._tasks


def test_an_import_tells_of_each_file(board: Board) -> None:
    hostile = "<b>[x](http://a.b)"
    there = PartProgress(0, 2, "there", run_id="r", file="x.json")
    board.tell("done", there, PartProgress(1, 2, "failed", file=hostile, error=f"no JSON {hostile}"))
    board.tell("failed", error=f"there is no model {hostile}")
    app = opened()
    assert "x.json**, already in the store, as r" in words(app) and "there is no model" in words(app)
    assert hostile not in raw(app)


def test_captured_runs_are_compared_by_their_lps(board: Board, store: Store) -> None:
    control, test = both(store)
    runs = [PartProgress(n, 2, "done", run_id=str(entry.row["run_id"])) for n, entry in enumerate((test, control))]
    board.tell("done", *runs).words = ("run", "--profile", "--lp", "none")
    assert [one.proto.url for one in opened(TRACES).link_button][:2] == [
        f"compare?control={control.row['run_id']}&test={test.row['run_id']}",
        f"profiles?control={control.id}&test={test.id}",
    ]


# --- imports and recordings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "key", "begin"), [(RUNS_PAGE, "import", ["import"]), (LOGS, "logs", ["logits", "add"])]
)
def test_uploads_are_handed_in_with_their_names(board: Board, page: str, key: str, begin: list[str]) -> None:
    app = opened(page, manage="Import")
    assert app.button(f"{key}_go").disabled
    content = json.dumps(document()).encode()
    files = [("one.json", content, "application/json"), ("../two.json.gz", gzip.compress(content), "application/gzip")]
    app.file_uploader[0].set_value(files)
    next(one for one in app.text_input if one.label == "Label").set_value("ours ")
    app.run()
    app.button(f"{key}_go").click().run()
    ((title, handed, inputs, _),) = board.handed
    assert (title, [name for name, _ in inputs]) == ("Import of 2 files", ["one.json", "../two.json.gz"])
    args = parsed([*handed, "a", "b"])
    assert (handed[: len(begin)], args.files, args.label) == (begin, ["a", "b"], "ours")
    assert app.button(f"{key}_go").disabled, "they are imported"


def test_files_of_this_machine_are_patterns_of_the_command(board: Board, store: Store) -> None:
    control, _ = both(store)
    app = opened(
        TRACES, traces_from="On this machine", traces_paths="/in/*\n/two [x](y).json.gz", trace_label="mine  too",
        trace_run=str(control.row["run_id"]), trace_keep="true", trace_events="true", trace_tokens="7",
    )  # fmt: skip
    assert board.handed == [], "a link starts nothing"
    app.button("traces_go").click().run()
    args = parsed(board.handed[0][1])
    assert (args.run_of, args.label, args.tokens, args.passes) == (control.row["run_id"], "mine too", 7, None)
    assert args.keep and args.events and args.files == ["/in/*", "/two [x](y).json.gz"]


def test_recordings_are_commands_that_anybody_may_copy(board: Board) -> None:
    app = opened(
        TRACES, manage="Record", run_from="SMILES", run_smiles="CC=O\nCCO", profile_steps="12", profile_skip="3"
    )
    args = parsed(shlex.split(command(app))[3:])
    assert args.profile and (args.profile_steps, args.profile_skip, args.lp) == (12, 3, ["none", "exact"])
    app.button("start_capture").click().run()
    app = opened(LOGS, manage="Record", log_values="17,", log_lp="exact")
    app.button("start_log").click().run()
    args = parsed(board.handed[1][1])
    assert (args.log_logits, args.add_log, args.sample_size, args.lp) == ([17], True, 4, ["exact"])
    app.text_input("log_values").set_value("17 x").run()
    assert "Give a number, or token ids" in words(app) and not [one for one in app.button if one.key == "start_log"]
