"""Stop and Resume of a whole job: what was begun is resumed, what was not is begun. No command is carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.runner.background import Task
from engine.runner.progress_file import PartProgress
from engine.store.schema import RUN
from engine.store.staging import Staging
from tests.cli import parsed
from tests.engine.store.stored_runs import MADE_AT
from tests.pages.drift_stores import store_at
from tests.pages.manage_pages import Board, opened, words

WORDS = "run --threads=1 --model a --model b --lp none --lp exact --seed 3".split()


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    row = {"created_at": MADE_AT, "origin": "measured", "lp": "exact", "model_alias": "a"}
    Staging.create(store_at(tmp_path / "store").home, RUN, "begun", row, plan={}, samples=9)
    return Board.used(tmp_path, monkeypatch)


def stopped(board: Board, *parts: PartProgress) -> Task:
    task = board.tell("stopped", *parts, title="4 runs")
    task.words = tuple(WORDS)
    return task


def test_a_stopped_job_is_resumed_as_a_whole(board: Board) -> None:
    """Of four runs one is done and one begun; the other two are begun by words that leave out what is there."""
    done, begun = PartProgress(0, 4, "done", "there"), PartProgress(1, 4, run_id="begun")
    task = stopped(board, done, begun)
    (file,) = task.inputs = [board.folder / "input" / "smiles.csv"]
    file.parent.mkdir()
    file.write_bytes(b"CO")
    app = opened()
    assert "stopped after 75 s: 1 of 4 done, 1 begun, 2 not begun" in words(app)
    app.button("resume-task-1").click().run()
    resumed, anew = board.handed
    assert resumed == ("Resume begun", ["run", "--threads=1", "--resume", "begun"], [], "begun")
    assert anew[0] == "4 runs: b · none · exact" and anew[2] == [("smiles.csv", b"CO")]
    said = parsed(anew[1])
    assert (said.model, said.lp, said.seed, said.threads) == (["b"], ["none", "exact"], 3, 1)
    assert not [button for button in opened().button if button.key == "resume-task-1"]  # once


def test_a_stop_in_the_set_up_says_that_nothing_was_begun(board: Board) -> None:
    stopped(board)
    app = opened()
    assert "stopped after 75 s; nothing was begun" in words(app)
    app.button("resume-task-1").click().run()
    said = [parsed(one[1]) for one in board.handed]
    assert [(one.model, one.lp) for one in said] == [(["a"], ["none", "exact"]), (["b"], ["none", "exact"])]


def test_a_run_that_was_deleted_meanwhile_is_not_resumed(board: Board) -> None:
    done = [PartProgress(number, 4, "done", str(number)) for number in range(3)]
    stopped(board, *done, PartProgress(3, 4, run_id="deleted"))
    assert not [button for button in opened().button if str(button.key).startswith("resume-task")]


def test_progress_is_told_from_the_first_second(board: Board) -> None:
    board.tell("running", seconds=1.2)
    (bar,) = opened().get("progress")
    assert bar.proto.text.replace("\\", "") == "Starting Python and the model, 1 s"
