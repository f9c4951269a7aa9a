"""Work on the store from three pages: runs started, tables of entries, imports, tasks. No command is carried out."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.chem.conformer_files import made_conformers
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import to_sdf
from engine.errors import RunError
from engine.figures.queue_words import QueueState
from engine.inspection.judging import judge_run
from engine.jobs import slurm
from engine.jobs.commands import Input, Task, TaskQueue, TaskSnapshot
from engine.jobs.progress import PartProgress
from engine.profile.ingest import add_trace
from engine.store.generations import import_pool
from engine.store.references import write_references
from engine.store.reports.importing import import_report
from engine.store.reports.rollouts import import_completions
from engine.store.schema import LOGIT_LOG, REFERENCES, RUN, TRACE
from engine.store.staging import Staging, unfinished_runs
from engine.store.store import Store
from pages._compare.manage import packed_report
from tests.cli import parsed
from tests.engine.chem.pickles import conformers
from tests.engine.chem.pickles import write as write_pickle
from tests.engine.inspection.made import demo_run
from tests.engine.logits.logs import clean, new_log, objects, text, write
from tests.engine.profile.made_traces import event
from tests.engine.store.reports.documents import document
from tests.engine.store.reports.test_rollouts import trl
from tests.engine.store.stored_runs import MADE_AT, add, begun, store_at, written
from tests.pages import apps as pages
from tests.pages.apps import is_harmless, keys, query, section, shown, words
from tests.pages.drift_stores import OVERRIDE, with_demo
from tests.pages.profile_traces import both

CONTROL, TEST = demo_run("llama", "none"), demo_run("llama", "exact")
RUNS_PAGE = """
from engine.store.store import Store
from pages._compare import manage
from pages._compare.manage import PICKER
from engine.store.schema import RUN as KIND
"""
TRACES = """
from engine.store.store import Store
from pages._profiles import traces as manage
from engine.store.schema import TRACE as KIND
PICKER = manage.trace_picker({entry.id: entry.row for entry in Store.open().listing().entries})
"""
LOGS = """
from engine.store.store import Store
from pages._logits import logs as manage
from pages._logits.logs import LOGS as PICKER
from engine.store.schema import LOGIT_LOG as KIND
"""
DRAWN = """
from pages._kit.managing import tasks
tasks.tray()
store = Store.open()
chosen, _ = PICKER.read(store.listing(KIND))
manage.show(store, [entry.id for entry in chosen])
"""


class Board(TaskQueue):
    """A queue that remembers what was submitted, and reports what a test tells it to."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.handed: list[tuple[str, list[str], list[Input], str]] = []
        self.snapshots: list[tuple[Task, TaskSnapshot]] = []
        self.refusal: RunError | None = None

    def submit(self, title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> Task:
        if self.refusal is not None:
            raise self.refusal
        self.handed.append((title, list(words), list(inputs), about))
        return self.task(title, words, about, "waiting")

    def task(self, title: str, words: Sequence[str], about: str, state: QueueState) -> Task:
        task = Task(len(self.handed) + len(self.snapshots) + 1, title, words, self.folder, about)
        job: Any = SimpleNamespace(state=state)
        job.stop = lambda: setattr(job, "state", "stopped")
        task.job = job
        return task

    def tasks(self) -> list[tuple[Task, TaskSnapshot]]:
        return self.snapshots

    def tell(self, state: QueueState, *parts: PartProgress, title: str = "2 runs", **more: Any) -> Task:
        task = self.task(title, ["run", "--model", "x"], more.pop("about", ""), state)
        self._tasks.append(task)
        fields: dict[str, Any] = {"ahead": 0, "note": "", "error": "", "elapsed_s": 75.0, "parts": parts, "log": ()}
        self.snapshots.insert(0, (task, TaskSnapshot(state, **{**fields, **more})))
        return task

    @classmethod
    def used(cls, folder: Path, patch: pytest.MonkeyPatch) -> Board:
        """The page's queue as long as the test."""
        made = cls(folder)
        for module in ("tasks", "entries"):
            patch.setattr(f"pages._kit.managing.{module}.task_queue", lambda: made)
        return made


def opened(page: str = RUNS_PAGE, **query: str | list[str]) -> AppTest:
    return section(page + DRAWN, **query)


def followed(app: AppTest, patch: pytest.MonkeyPatch, *prefixes: str) -> list[tuple[str, dict[str, list[str]]]]:
    """Pages and their addresses that buttons of these keys open, in this tab."""
    addresses: list[tuple[str, dict[str, list[str]]]] = []
    patch.setattr(st, "switch_page", lambda page, query_params: addresses.append((page, query_params)))
    for prefix in prefixes:
        next(button for button in app.button if (button.key or "").startswith(prefix)).click().run()
    return addresses


def labelled(app: AppTest, kind: str, label: str) -> Any:
    return next(element for element in app.get(kind) if getattr(element, "label", None) == label)


@pytest.fixture(autouse=True)
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return Board.used(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


def ids(store: Store) -> list[str]:
    return [entry.id for entry in store.listing().entries]


# --- starting runs ----------------------------------------------------------------------------------------------------


def start(app: AppTest, board: Board) -> tuple[str, list[str], list[Any]]:
    """The title, the words and the files of what the button hands in."""
    app.button("start_runs").click().run()
    ((title, handed, inputs, about),) = board.handed
    assert about == ""
    return title, handed, inputs


def test_the_first_offer_is_one_command_that_reads(board: Board) -> None:
    app = opened()
    assert "**3 runs** of 64 molecules: 192 samples in all" in words(app)
    shown_command = str(app.code[-1].value).split()
    title, handed, inputs = start(app, board)
    assert (title, inputs) == ("3 runs of demo-llama:final", [])
    assert handed[0] == "run" and handed[1].startswith("--threads=")
    assert shown_command == [".venv/bin/python", "-m", "engine", "run", *handed[2:]]
    args = parsed(handed)
    assert (args.model, args.lp) == (["demo-llama:final"], ["none", "group-v2.1", "exact"])
    assert (args.sample_size, args.keep_steps, args.rmsd, args.sampling) == (64, 16, None, "qwen3")
    assert args.judge, "what is compared with other programs' conformers is judged, as they are"


def test_everything_that_is_chosen_is_in_the_command(board: Board) -> None:
    app = opened(run_from="SMILES", run_smiles="CC=O first\n\nCCO", run_lp=["none", "exact"], seed="7", n="2")
    app.multiselect("run_model").set_value(["demo-qwen:final", "demo-qwen-l3:final"])
    app.segmented_control("run_backend").set_value("hf")
    for key, value in (("run_batch", 8), ("run_steps", 0), ("run_rmsd", 3), ("temperature", 0.9), ("most_tokens", 99)):
        app.number_input(key).set_value(value)
    app.toggle("run_judge").set_value(False)
    app.text_input("run_label").set_value("  --two words ")
    app.run()
    assert "**4 runs** of 2 molecules × 2 samples: 16 samples in all" in words(app)
    title, handed, _ = start(app, board)
    assert title == "4 runs “--two words”"
    args = parsed(handed)
    assert (args.model, args.lp) == (["demo-qwen:final", "demo-qwen-l3:final"], ["none", "exact"])
    assert (args.smiles, args.label, args.seed, args.generations) == (["CC=O", "CCO"], "--two words", 7, 2)
    assert (args.backend, args.batch_size, args.keep_steps, args.rmsd, args.judge) == ("hf", 8, None, 3, False)
    assert (args.sampling, args.temperature, args.limit) == ("qwen3", 0.9, 99)


def test_bins_and_examples_that_no_entry_names_are_given(board: Board, tmp_path: Path) -> None:
    bins, examples = tmp_path / "my bins.json", tmp_path / "examples.txt"
    bins.write_text('{"mode": "uniform", "L": -10.5, "H": 10.5, "n_bins": 256}')
    examples.write_text("[SMILES]CO[/SMILES]\n[CONFORMER][C]128130125;[O]100102098;[/CONFORMER]\n")
    app = opened(run_lp=["none", "exact"], run_bins=str(bins), run_examples=str(examples))
    assert not app.error and f"--bins '{bins}' --examples {examples}" in app.code[-1].value
    _, handed, _ = start(app, board)
    args = parsed(handed)
    assert (args.bins, args.examples) == ((str(bins), ""), str(examples))
    app.text_input("run_bins").set_value("0.042 21").run()
    assert parsed(shlex.split(app.code[-1].value)[3:]).bins == ("0.042", "21")


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ({"run_bins": "/gone/bins.json"}, "cannot be read"),
        ({"run_bins": "0.5 0.3"}, "bins of 0.5 over"),
        ({"run_bins": "0.042 21", "run_lp": "truncating"}, "is for decimals, not for bins"),
        ({"run_examples": "/gone/examples.txt"}, "cannot be read"),
    ],
)
def test_bins_and_examples_that_cannot_be_read_start_nothing(query: dict[str, Any], part: str) -> None:
    app = opened(**query)
    (error,) = app.error
    assert part in error.value.replace("\\", "") and "start_runs" not in keys(app)


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ({"run_from": "SMILES", "run_smiles": "CCO\nC(C\n\nnope"}, ["Line 2: SMILES 'C(C'", "Line 4: SMILES 'nope'"]),
        ({"run_from": "SMILES", "run_smiles": f"<img src=x>\n{OVERRIDE}"}, ["Line 1", "u202e"]),
        ({"run_from": "SMILES", "run_smiles": " "}, ["at least one SMILES"]),
        ({"run_from": "A file"}, ["file of molecules"]),
        ({"run_lp": []}, ["at least one LP"]),
        ({"temperature": "0", "top_p": "0.5", "n": "32", "run_lp": "exact"}, ["2,048 samples"]),
    ],
)
def test_what_cannot_be_started_is_said_before(query: dict[str, Any], parts: list[str]) -> None:
    app = opened(**{name: value for name, value in query.items() if value != []})
    if query.get("run_lp") == []:
        app.multiselect("run_lp").set_value([]).run()
    assert all(part in words(app) for part in parts)
    assert ("start_runs" in keys(app)) == ("samples" in parts[0])


def test_too_many_runs_and_a_command_that_is_not_taken_are_one_message(board: Board) -> None:
    app = opened()
    app.multiselect("run_lp").set_value(app.multiselect("run_lp").options)
    app.multiselect("run_model").set_value(app.multiselect("run_model").options).run()
    assert "Limit: 24 runs at once" in words(app)
    board.refusal = RunError("this server is shutting down", "Start it again")
    app = opened()
    app.button("start_runs").click().run()
    assert "shutting down. Start it again" in words(app)


def test_files_and_many_typed_molecules_go_with_the_command(board: Board) -> None:
    smiles = [f"{'C' * length}O" for length in range(1, 26)]
    app = opened(run_from="SMILES", run_smiles="\n".join(smiles), run_lp="exact")
    _, handed, inputs = start(app, board)
    assert handed[-1] == "--smiles-file" and inputs == [("typed.smi", ("\n".join(smiles) + "\n").encode())]
    board.handed.clear()
    app = opened(run_from="A file", run_lp="exact", run_column="mol", run_limit="1")
    app.file_uploader("run_file").set_value(("mole cules.csv", b"name,mol\na,CCO\n", "text/csv")).run()
    assert "**1 run** of 1 molecule" in words(app)
    _, handed, inputs = start(app, board)
    assert inputs == [("mole cules.csv", b"name,mol\na,CCO\n")]
    args = parsed([*handed, "x.csv"])
    assert (args.smiles_column, args.sample_size) == ("mol", 1)


# --- the table --------------------------------------------------------------------------------------------------------


def test_runs_are_ticked_by_ids_and_deleted_with_one_question(store: Store) -> None:
    for run_id in ("a", "b", "c"):
        written(store.home, run_id)
    app = opened(manage="Several runs", run=["a", "c"], control="a", test=["b", "c"])
    written(store.home, "later")  # it stands above them, and nothing else is ticked
    app.run()
    assert shown(app)["run"] == ["a", "c"]
    app.button("remove-ticked").click().run()
    assert ids(store) == ["b", "later"]
    assert (query(app, "control"), query(app, "test"), query(app, "run")) == (None, "b", None)


@pytest.mark.parametrize(("page", "manage"), [(RUNS_PAGE, "Several runs"), (TRACES, "One trace"), (LOGS, "One log")])
def test_nothing_is_ticked_on_arrival(store: Store, tmp_path: Path, page: str, manage: str) -> None:
    both(store)
    new_log(store, write(tmp_path / "one.jsonl", text(objects(clean(5, 4)))))
    app = opened(page, manage=manage)
    assert "remove-ticked" not in keys(app) and "in the table" in words(app)


def test_tags_of_all_that_are_ticked(store: Store) -> None:
    for run_id in ("a", "b", "c"):
        written(store.home, run_id)
    app = opened(manage="Several runs", run=["a", "c"])
    app.multiselect("tags-of-ticked").set_value(["slow  disk", "的"]).run()
    app.button("add-tags").click().run()
    tags = ["slow disk", "的"]
    assert [entry.row.get("tags") for entry in store.listing().entries] == [tags, None, tags]
    app.multiselect("tags-of-ticked").set_value(["的"]).run()
    app.button("take-tags").click().run()
    assert store.entry("a").row["tags"] == ["slow disk"]
    app = opened(manage="Several runs", own_contains="disk")
    assert list(app.dataframe[0].value["run"]) == ["c", "a"]


def test_a_run_is_renamed_and_shown_with_all_that_is_known(tmp_path: Path) -> None:
    store = with_demo(tmp_path / "store", CONTROL, TEST)
    app = opened(manage="One run", run=TEST)  # an older link
    labelled(app, "text_input", "Label").set_value(" my  x ")
    app.text_area[0].set_value(OVERRIDE)
    labelled(app, "button", "Save label and notes").click().run()
    assert (store.entry(TEST).row["label"], store.entry(TEST).row["notes"]) == ("my x", OVERRIDE)
    facts = app.dataframe[1].value.set_index("column")["value"]
    assert facts["samples"] == "64" and is_harmless(app)
    (tmp_path / "out.json.gz").write_bytes(packed_report(store.entry(TEST)))
    assert import_report(store, tmp_path / "out.json.gz").row["samples"] == 64


def test_what_ships_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTSCOPE_STORE")
    monkeypatch.setattr("engine.store.store.HOME", tmp_path / "home")
    app = opened(manage="Several runs", run=TEST)
    assert app.button("remove-ticked").disabled and "add-tags" not in keys(app) and app.text_area[0].disabled
    assert opened(manage="Several runs", run="reported-002-llama-lp-1000").download_button[0].disabled


def test_rollouts_that_are_not_judged_have_no_report(store: Store, tmp_path: Path) -> None:
    first, _ = import_completions(store, trl(tmp_path / "a"), warn=pytest.fail)
    button = opened(manage="Several runs", run=first.id).download_button[0]
    assert button.disabled and button.proto.help == "Its texts are not judged yet"


def test_a_trace_goes_with_its_file_and_keeps_its_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [event("cpu_op", "aten::mm", 0, 10)]}))
    entry, (control, _) = add_trace(store, path, {"label": "kept"}, keep_file=True), both(store)
    app = opened(TRACES, manage="One trace", trace=control.id)
    run_id = control.row["run_id"]
    assert followed(app, monkeypatch, "Open its run", "Open its samples") == [
        ("pages/compare.py", {"control": [run_id]}),
        ("pages/drift.py", {"run": [run_id]}),
    ]
    assert app.get("download_button")[0].proto.disabled
    app = opened(TRACES, manage="One trace", trace=entry.id, control=entry.id, test=control.id)
    assert not app.get("download_button")[0].proto.disabled
    app.button("remove-ticked").click().run()
    assert entry.id not in {trace.id for trace in store.listing(TRACE).entries}
    assert not Path(store.home.path(str(entry.row["file"]))).exists()
    assert (query(app, "control"), query(app, "trace")) == (None, None)


def test_a_log_says_what_was_left_out_of_it(store: Store, tmp_path: Path) -> None:
    lines = text(objects(clean(5, 4))).splitlines(keepends=True)
    entry = new_log(store, write(tmp_path / "cut.jsonl", b"".join([*lines[:2], b"nonsense\n", *lines[2:]])[:-30]))
    store.annotate(entry.id, LOGIT_LOG, notes="mine")
    app = opened(LOGS, manage="One log", one=entry.id)
    assert "1 line could not be read. The file is truncated. mine" in words(app)


def test_reference_sets_are_listed_and_deleted(store: Store) -> None:
    assert len(opened(manage="References").info) == 1
    made = made_conformers([parse_smiles("CCO")], 1, seed=0, mmff=False)
    write_references(store, made, label="mine", form="etkdg", source="x", origin="made")
    (name,) = [entry.id for entry in store.listing(REFERENCES).entries]
    opened(manage="References", references=name).button("remove-ticked").click().run()
    assert store.listing(REFERENCES).entries == ()


# --- unfinished -------------------------------------------------------------------------------------------------------


def begun_run(store: Store, run_id: str, samples: int) -> Staging:
    """As the runner begins one: with its plan, which an import has not."""
    row = {"created_at": MADE_AT, "origin": "measured", "lp": "exact", "model_alias": "<b>", "label": "[x](http://a.b)"}
    return Staging.create(store.home, RUN, run_id, row, plan={}, samples=samples)


def test_unfinished_runs_are_resumed_or_deleted(board: Board, store: Store, tmp_path: Path) -> None:
    add(begun_run(store, "stopped", 10), range(4))
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


def test_what_is_being_written_is_left_alone(board: Board, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    written(store.home, "whole")
    writing = begun_run(store, "writing", 3)
    writing.lock()
    begun_run(store, "queued", 3)
    board.tell("waiting", about="queued")
    app = opened(manage="Unfinished", run=["writing", "queued"])
    assert app.button("resume-ticked").disabled and app.button("remove-ticked").disabled
    writing.release()
    assert not opened(manage="Unfinished", run="writing").button("resume-ticked").disabled
    queue = {"7_0": ("PENDING", "writing"), "8": ("FAILED", "queued")}
    monkeypatch.setattr(slurm, "slurm_jobs", lambda: queue)
    app = opened(manage="Unfinished", run="writing")
    app.button("remove-ticked").click().run()  # it was submitted after the table's answer
    (toast,) = app.toast
    assert "scancel 7" in toast.value
    assert "writing" in {run.run_id for run in unfinished_runs(store.home)}
    monkeypatch.setattr(slurm, "KEPT", slurm.KeptAnswer())
    app = opened(manage="Unfinished", run="writing")
    assert app.dataframe[0].value.set_index("run")["state"].to_dict()["writing"] == "queued: 0 of 3 samples"
    assert app.dataframe[0].value.columns[0] == "swatch"  # though the first runs, which are unfinished, have none
    assert app.button("resume-ticked").disabled and app.button("remove-ticked").disabled


# --- tasks ------------------------------------------------------------------------------------------------------------


def progress(app: AppTest) -> tuple[int, list[str]]:
    (bar,) = app.get("progress")
    return bar.proto.value, bar.proto.text.replace("\\", "").split(" · ")


def test_a_task_at_work_tells_how_far_it_is_and_can_be_stopped(board: Board) -> None:
    first = PartProgress(0, 2, "done", run_id="a", model_alias="demo", model_step="final", lp="none", work=1.0)
    now = PartProgress(
        1,
        2,
        "running",
        run_id="b",
        model_alias="demo",
        model_step="final",
        lp="exact",
        samples=40,
        done=10,
        passes=9,
        decodes=8,
        clean=7,
        bad_blocks=2,
        blocks=80,
        tokens=1,
        written=10,
        seconds=5.0,
        work=0.25,
    )
    board.tell("running", first, now)
    board.tell("waiting", title="much later", ahead=2)
    app = opened()
    assert "**2 runs** · running for 75 s" in words(app) and "waiting: 2 ahead of you" in words(app)
    done, labels = progress(app)
    assert (done, labels[:4]) == (62, ["2 of 2: demo:final", "exact", "10 of 40 samples", "2.0 per second"])
    assert labels[4:] == [*("15 s left of this run", "90.0 % passed", "70.0 % clean", "2 of 80 blocks bad")]
    app.button("stop-2").click().run()
    assert board.snapshots[0][0].job.state == "stopped"


@pytest.mark.parametrize("page", ["evidence", "logits"])
def test_jobs_are_in_the_side_bar_of_every_page_and_nowhere_without_any(board: Board, page: str) -> None:
    assert not [button for button in pages.opened(page).sidebar.button if (button.key or "").startswith("stop-")]
    board.tell("running", PartProgress(0, 1, "running", run_id="a", samples=40, done=10))
    app = pages.opened(page)
    assert "**2 runs** · running for 75 s" in [text.value for text in app.sidebar.markdown]
    assert len([button for button in app.button if button.key == "stop-1"]) == 1
    app.sidebar.button("stop-1").click().run()
    assert board.snapshots[0][0].job.state == "stopped"
    assert "**1 job**" in [text.value for text in app.sidebar.markdown]
    board.tell("waiting", title="later", ahead=1)
    assert "**2 jobs**" in [text.value for text in pages.opened(page).sidebar.markdown]


def test_what_a_task_brought_can_be_compared_and_cleared(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_demo(tmp_path / "store", CONTROL, TEST)
    parts = [PartProgress(0, 3, "done", run_id=TEST, lp="exact"), PartProgress(1, 3, "done", run_id=CONTROL, lp="none")]
    task = board.tell("done", *parts, PartProgress(2, 3, "done", run_id="gone"), log=("a line",))
    app = opened()
    assert "2 runs in 75 s" in words(app) and "a line" in [block.value for block in app.code]
    assert followed(app, monkeypatch, "open-run") == [("pages/compare.py", {"control": [CONTROL], "test": [TEST]})]
    app.button("clear-1").click().run()
    assert task not in board._tasks


def test_an_import_tells_of_each_file_and_captured_runs_are_compared_by_their_lps(
    board: Board, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "<img src=x>[x](http://a.b)"
    there = PartProgress(0, 2, "there", run_id="r", file="x.json")
    board.tell("done", there, PartProgress(1, 2, "failed", file=hostile, error=f"no JSON {hostile}"))
    board.tell("failed", PartProgress(0, 1, "failed", error=f"no {hostile}"), error=f"it is no {hostile}")
    app = opened()
    assert is_harmless(app) and "already in the store, as r" in words(app) and words(app).count("left out: ") == 1
    control, test = both(store)
    runs = [PartProgress(n, 2, "done", run_id=str(entry.row["run_id"])) for n, entry in enumerate((test, control))]
    board.tell("done", *runs).words = ("run", "--profile", "--lp", "none")
    assert followed(opened(TRACES), monkeypatch, "open-run-3", "open-trace-3") == [
        ("pages/compare.py", {"control": [control.row["run_id"]], "test": [test.row["run_id"]]}),
        ("pages/profiles.py", {"control": [control.id], "test": [test.id]}),
    ]


def test_an_import_shows_what_it_left_out_of_a_file(board: Board, store: Store, tmp_path: Path) -> None:
    record = to_sdf(conformers("CCO", 1))
    (tmp_path / "cut.sdf").write_text(record + record[: len(record) // 2])
    run = import_pool(store, tmp_path / "cut.sdf", settings=None)
    done = PartProgress(0, 1, "done", run_id=run.id, file="cut.sdf")
    board.tell("done", done).words = ("evaluate", run.id)
    assert "cannot be read" not in words(opened())
    board.tell("done", done).words = ("import", "cut.sdf")
    assert "1 of 2 molecules cannot be read. The first: it is cut short" in words(opened())


@pytest.mark.parametrize(
    ("command", "start", "between"),
    [
        ("run", "Starting Python and the model", "Loading the model"),
        ("import", "Starting Python", "Reading files"),
        ("judge", "Starting Python", "Computing"),
    ],
)
def test_a_task_says_what_it_does_before_it_can_tell_how_far_it_is(
    board: Board, command: str, start: str, between: str
) -> None:
    board.tell("running").words = (command,)
    assert progress(opened())[1] == [f"{start}, 75 s"]
    board.snapshots.clear()
    board.tell("running", PartProgress(0, 2, "done")).words = (command,)
    assert progress(opened())[1] == [f"{between}, 75 s"]


def test_runs_without_verdicts_are_judged_from_drift_and_from_their_table(
    board: Board, store: Store, tmp_path: Path
) -> None:
    file = write_pickle(tmp_path / "generation_results.pickle", {"CCO": conformers("CCO", 1)})
    run = import_pool(store, file, settings=None)
    for app in (pages.opened("drift", run=run.id), opened(manage="Several runs", run=run.id)):
        app.button("judge").click().run()
    assert [words for _, words, _, _ in board.handed] == [["judge", run.id]] * 2
    judge_run(store, run.id, workers=1)
    app = pages.opened("drift", run=run.id)
    assert "judge" not in keys(app) and "In 3D: right." in words(app), "it has verdicts now"
    labels = [expander.label.replace("\\", "") for expander in app.expander]
    assert file.stem in labels[0]


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
    labelled(app, "text_input", "Label").set_value("ours ")
    app.run()
    app.button(f"{key}_go").click().run()
    ((title, handed, inputs, _),) = board.handed
    assert (title, [name for name, _ in inputs]) == ("Import of 2 files", ["one.json", "../two.json.gz"])
    args = parsed([*handed, "a", "b"])
    assert (handed[: len(begin)], args.files, args.label) == (begin, ["a", "b"], "ours")
    assert app.button(f"{key}_go").disabled, "they are imported"


def test_conformers_of_another_program_are_handed_in_like_reports(board: Board) -> None:
    app = opened(manage="Import")
    assert {".sdf", ".parquet", ".pickle", ".json"} <= set(app.file_uploader[0].proto.type)
    app.file_uploader[0].set_value([("pool.sdf", b"a record", "chemical/x-mdl-sdfile")])
    app.toggle("import_strain").set_value(True)
    labelled(app, "text_input", "Label").set_value("ETKDG")
    app.run()
    app.button("import_go").click().run()
    ((_, handed, inputs, _),) = board.handed
    assert (handed, inputs) == (["import", "--label=ETKDG", "--strain", "--"], [("pool.sdf", b"a record")])


def test_files_of_this_machine_are_patterns_of_the_command(board: Board, store: Store) -> None:
    control, _ = both(store)
    app = opened(
        TRACES,
        traces_from="On this machine",
        traces_paths="/in/*\n/two [x](y).json.gz",
        trace_label="mine  too",
        trace_run=str(control.row["run_id"]),
        trace_keep="true",
        trace_events="true",
        trace_tokens="7",
    )
    assert board.handed == [], "a link starts nothing"
    app.button("traces_go").click().run()
    args = parsed(board.handed[0][1])
    assert (args.run_of, args.label, args.tokens, args.passes) == (control.row["run_id"], "mine too", 7, None)
    assert args.keep and args.events and args.files == ["/in/*", "/two [x](y).json.gz"]


def test_recordings_are_commands_that_anybody_may_copy(board: Board) -> None:
    app = opened(
        TRACES, manage="Record", run_from="SMILES", run_smiles="CC=O\nCCO", profile_steps="12", profile_skip="3"
    )
    args = parsed(shlex.split(str(app.code[-1].value))[3:])
    assert args.profile and (args.profile_steps, args.profile_skip, args.lp) == (12, 3, ["none", "exact"])
    app.button("start_capture").click().run()
    app = opened(LOGS, manage="Record", log_values="17,", log_lp="exact")
    app.button("start_log").click().run()
    args = parsed(board.handed[1][1])
    assert (args.log_logits, args.add_log, args.sample_size, args.lp) == ([17], True, 4, ["exact"])
    app.text_input("log_values").set_value("17 x").run()
    assert "start_log" not in keys(app)
