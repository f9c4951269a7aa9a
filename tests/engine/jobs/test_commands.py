"""Commands beside the app, for real: started, watched, stopped, gone on with; a server that is killed has no orphan."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import DriftscopeError
from engine.jobs import commands
from engine.jobs.commands import Task, TaskQueue, TaskSnapshot, file_name
from engine.paths import ROOT
from engine.store.files import Files
from engine.store.staging import abandon, unfinished_runs
from engine.store.store import Store
from tests.engine.store.reports.documents import document
from tests.small_models import use_small_model
from tests.support import of_soak

PATIENCE_S = 120.0  # only where something hangs
MODEL = ("--model", "small", "--threads=1")
LONG = ("run", *MODEL, "--sample-size=60", "--group=1", "--batch-size=1", "--lp=exact")
OF_A_SERVER = """
import sys, threading
from engine.jobs.commands import task_queue
task = task_queue().submit("long", sys.argv[1:])
threading.Event().wait()
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    use_small_model(monkeypatch)
    return Files(tmp_path / "store")


@pytest.fixture
def board() -> Iterator[TaskQueue]:
    made = TaskQueue()
    yield made
    made.close()
    assert all(seen.has_ended for _, seen in made.tasks())


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "it did not come to that"
        time.sleep(0.05)


def seen(board: TaskQueue, task: Task) -> TaskSnapshot:
    return dict(board.tasks())[task]


def ended(board: TaskQueue, task: Task) -> TaskSnapshot:
    until(lambda: seen(board, task).has_ended)
    return seen(board, task)


def has_written(board: TaskQueue, task: Task, samples: int) -> Callable[[], bool]:
    return lambda: any(part.done >= samples for part in seen(board, task).parts)


@of_soak
def test_a_run_is_stopped_and_gone_on_with_while_others_wait(board: TaskQueue, files: Files) -> None:
    long = board.submit("long", LONG)
    waiting = board.submit("two", ["run", *MODEL, "--lp", "none", "--lp", "exact", "--", "CC=O", "CCO"])
    never = board.submit("never", LONG)
    assert [(task.title, how.ahead) for task, how in board.tasks()][:2] == [("never", 2), ("two", 1)]
    never.job.stop()
    assert seen(board, never).state == "stopped"
    until(has_written(board, long, 3))
    assert seen(board, long).state == "running" and 0 < seen(board, long).share < 1
    long.job.stop()
    assert ended(board, long).state == "stopped"
    assert seen(board, long).log[-1] == "driftscope: stopped"
    (left,) = unfinished_runs(files)
    assert (left.state, left.samples, left.can_resume) == ("stopped", 60, True)
    assert left.samples_done and left.samples_done >= 2
    two = ended(board, waiting)
    assert (two.state, two.share, two.error) == ("done", 1.0, "")
    assert [(part.lp, part.done, part.samples) for part in two.parts] == [("none", 2, 2), ("exact", 2, 2)]
    entries = Store(files).listing().entries
    assert [entry.id for entry in entries] == list(two.run_ids)
    assert entries[0].row["source"].startswith("python -m engine run --model small")

    again = board.submit("again", ["run", "--threads=1", "--resume", left.run_id], about=left.run_id)
    assert board.is_at(left.run_id)
    until(has_written(board, again, left.samples_done + 2))
    (part,) = seen(board, again).parts
    assert part.run_id == left.run_id and part.began > 0 and again.process is not None
    again.process.kill()
    assert ended(board, again).state == "failed"
    assert seen(board, again).error.startswith("it was killed (Killed). Check the free memory")
    assert not board.is_at(left.run_id)
    abandon(files, left.run_id)
    assert unfinished_runs(files) == []


@of_soak
def test_no_orphan_of_a_server_that_is_killed(files: Files, tmp_path: Path) -> None:
    """It cannot say anything: its commands hear the end of their input."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    server = subprocess.Popen([sys.executable, "-c", OF_A_SERVER, *LONG], cwd=ROOT, env=environment)
    try:
        until(lambda: [run.state for run in unfinished_runs(files)] == ["being written"])
    finally:
        server.kill()
        server.wait(PATIENCE_S)
    until(lambda: [run.state for run in unfinished_runs(files)] == ["stopped"])


def test_files_are_imported_once_and_damaged_ones_named(board: TaskQueue, files: Files) -> None:
    good = json.dumps(document()).encode()
    named = "../../evil\0 ünï.json.gz"
    inputs = [("good.json", good), (named, gzip.compress(good)), ("torn.json", good[:100]), ("good.json", b"[]")]
    task = board.submit("four", ["import", "--label=-x", "--"], inputs)
    paths = list(task.inputs)
    (folder,) = {path.parent.name for path in paths}
    assert folder.startswith("uploaded ") and len({path.parent.parent for path in paths}) == len(inputs)
    assert all(path.resolve().is_relative_to(task.folder.resolve()) for path in paths)
    snapshot = ended(board, task)
    assert [(part.file, part.state) for part in snapshot.parts] == [
        ("good.json", "done"),
        ("evil_n_.json.gz", "there"),
        ("torn.json", "failed"),
        ("good.json", "failed"),
    ]
    assert "it ends early" in snapshot.parts[2].error
    (entry,) = Store(files).listing().entries
    assert (snapshot.state, snapshot.run_ids) == ("done", (entry.id,))
    assert (entry.row["label"], entry.row["source"]) == ("-x", "good.json")
    assert not any(path.parent.exists() for path in paths), "what was uploaded is removed"

    alone = ended(board, board.submit("torn", ["import", "--"], [("torn.json", b"{")]))
    assert alone.state == "failed"
    assert alone.error.startswith("'torn.json': it ends early")
    board.forget(task)
    assert task not in dict(board.tasks())
    assert not task.folder.exists()


def test_what_fails_says_what_a_terminal_would(board: TaskQueue, files: Files) -> None:
    strange = ended(board, board.submit("strange", ["run", "--model=a\0b"]))
    assert (strange.state, strange.parts) == ("failed", ())
    assert "cannot be started" in strange.error
    refused = board.submit("refused", ["import", "--"], [("a.json", b"no report")])
    assert [path.exists() for path in refused.inputs] == [True]
    assert ended(board, refused).state == "failed"
    picture = board.submit("picture", ["trace", "add"], [("picture.json", b"\x89PNG")])
    error = ended(board, picture).error
    assert error.startswith("'picture.json', line 1: this is no trace"), "not the place of its copy"
    assert [path.exists() for path in refused.inputs] == [False], "the page says that an upload is deleted afterwards"


def started_as(code: str) -> Callable[[Task], subprocess.Popen[bytes]]:
    """Another program in a command's place."""

    def started(task: Task) -> subprocess.Popen[bytes]:
        with (task.folder / "stdout").open("wb") as out, (task.folder / "stderr").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True
            )

    return started


def test_a_task_that_ignores_sigint_is_ended(board: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "GRACE_S", 0.2)
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('x', flush=True); time.sleep(600)"
    monkeypatch.setattr(Task, "_started", started_as(deaf))
    task = board.submit("deaf", ["run"])
    until(lambda: (task.folder / "stdout").exists() and (task.folder / "stdout").read_text() == "x\n")
    task.job.stop()
    task.job.stop()
    assert ended(board, task).state == "stopped"
    assert task.process is not None and task.process.returncode == -signal.SIGTERM


def test_a_closed_queue_takes_nothing_and_leaves_nothing(files: Files) -> None:
    board = TaskQueue()
    task = board.submit("import", ["import", "--", "nothing*"])
    waiting = board.submit("waiting", LONG)
    folder = task.folder
    board.close()
    assert waiting.job.state == "stopped"
    assert not folder.exists()
    with pytest.raises(DriftscopeError, match="shutting down"):
        board.submit("late", ["import", "x"])


def test_names_of_uploads_are_no_paths() -> None:
    given = ("qwen_lp_v38.json.gz", "../../etc/passwd", "..", "", ".hidden", "x" * 200 + ".json")
    names = ["qwen_lp_v38.json.gz", "etc_passwd", "file", "file", "hidden", "x" * 75 + ".json"]
    assert list(map(file_name, given)) == names
