"""A real Slurm carries out a run: a task is killed, one reaches its time limit, one is cancelled, and each run is
published once, with the content that one process writes. What Slurm says of jobs is told by a small ``squeue``, too."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from engine.jobs import slurm as module
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging, unfinished_ids
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.jobs import real_slurm as real
from tests.engine.jobs import small_runs as small
from tests.small_models import use_small_model
from tests.support import of_soak

MOLECULES = [f"{'C' * carbons}{end}" for carbons in range(1, 9) for end in "CNOF"]  # a task takes seconds
ASKED = ("run", *MOLECULES, "--model", "small", "--lp", "none", "--max-new-tokens", "200", "--group", "1")


def states() -> dict[str, tuple[str, int]]:
    rows = run_json("runs", "--unfinished")
    return {row["run_id"]: (row["state"], row["samples_done"]) for row in rows}


def saved(run_id: str, rank: int = 0) -> int:
    names = Files(Store.open().home.root).sizes(f"staging/{run_id}")
    return sum(name.startswith(f"group-{rank:04d}-") for name in names)


@of_soak
def test_slurm_kills_stops_and_cancels_tasks_and_each_run_is_published_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(module, "ASK_EACH_S", 0.0)
    run_json(*ASKED)
    whole = small.content(small.entry_in(tmp_path / "store"))
    with real.started(monkeypatch):
        refused = run(*ASKED, "--submit", "h100")  # this machine's Slurm has none
        assert "Slurm refused the tasks: sbatch: error: Invalid generic resource (gres)" in refused.error
        run_json("rm", *states(), "--yes")

        # Two tasks: one is killed, the other stands still until Slurm warns it that its time is over.
        (row,) = run_json(*ASKED, "--submit", "slurm", "--array", "2")
        run_id, (killed, late) = row["run_id"], row["jobs"]
        assert row["cancel"] == f"scancel {killed.partition('_')[0]}"
        assert states() == {run_id: ("queued", 0)}
        for rank, job, number in ((1, late, signal.SIGSTOP), (0, killed, signal.SIGKILL)):
            real.until(partial(saved, run_id, rank), f"{job} writes nothing")
            os.kill(real.process_of(job), number)
        real.bring_limit_near(late)
        real.until(lambda: real.state_of(killed) == "FAILED", "a killed task goes on")

        # Meanwhile: one is waited for, and cancelled before it has saved anything.
        begun = {run_id}
        canceller = threading.Thread(target=cancel_when_it_starts, args=(begun,))
        canceller.start()
        result = run(*ASKED, "--submit", "slurm", "--wait")
        canceller.join()
        (other,) = states().keys() - begun
        assert result.code == 2 and f"{other} is unfinished: task " in result.err
        assert "ended without a message (cancelled)" in result.err and "accounting" not in result.err
        assert states()[other] == ("stopped", 0)

        real.start_now(late)
        real.until(lambda: real.state_of(late) == "COMPLETED", f"{late} does not resume")
        assert "Restarts=1 " in real.asked("scontrol", "show", "job", late)
        half = len(MOLECULES) // 2
        state, done = states()[run_id]
        assert state == "stopped" and saved(run_id, 1) == half and half < done < len(MOLECULES)
        (row,) = run_json("run", "--resume", run_id, "--submit", "slurm", "--wait")
        assert (row["samples"], row["resumed"], row["diverged_samples"]) == (len(MOLECULES), 2, 0)
        assert row["threads"] == 1  # of the node's two: what a task gets that asks for none
    entries = Store.open().listing().entries
    assert run_id in {entry.id for entry in entries} and len(entries) == 2 and list(states()) == [other]
    assert all(small.content(entry) == whole for entry in entries)


def cancel_when_it_starts(but: set[str]) -> None:
    """The job of a run that is none of these."""
    jobs: list[str] = []

    def starts() -> int:
        jobs[:] = [job for job, (_, run_id) in (module.slurm_jobs() or {}).items() if run_id not in but]
        return jobs != [] and real.process_of(jobs[0])

    real.until(starts, "the second run does not start")
    real.asked("scancel", *jobs)


# --- what is known of jobs --------------------------------------------------------------------------------------------


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What it answers; without this file it fails."""
    (tmp_path / "bin").mkdir()
    program, answer = tmp_path / "bin" / "squeue", tmp_path / "answer"
    program.write_text(f"#!/bin/sh\nexec cat {answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return answer


def test_states_of_jobs_are_those_of_the_queue(squeue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASK_EACH_S", 0.0)
    watcher = module.QueueWatcher()
    assert (watcher.get_state("4_1"), watcher.is_done("4_1")) == ("UNKNOWN", False)  # nobody answered yet
    squeue.write_text("4_1|COMPLETING|a\n4_0|TIMEOUT|a\n7|PENDING|odd | comment\n")
    assert [watcher.is_done(job) for job in ("4_0", "4_1", "7")] == [True, False, False]
    for state in ("PREEMPTED", "REVOKED", "REQUEUED"):
        squeue.write_text(f"4_1|COMPLETING|a\n8|{state}|a\n")
        assert watcher.is_done("8") == (state != "REQUEUED")
    squeue.unlink()
    assert watcher.get_state("4_1") == "COMPLETING"  # as it was last
    squeue.write_text("")
    assert (watcher.get_state("4_1"), watcher.is_done("4_1")) == ("PURGED", True)
    monkeypatch.setenv("PATH", "/nowhere")
    assert module.slurm_jobs() is None


def test_slurm_is_asked_anew_only_after_a_while_also_where_it_does_not_answer(
    squeue: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.started(tmp_path / "store", folder, 1)
    asked: list[object] = []
    now, ask = [time.monotonic()], module.slurm_jobs

    def counted() -> object:
        asked.append(ask())
        return asked[-1]

    monkeypatch.setattr(module, "slurm_jobs", counted)
    monkeypatch.setattr(module, "KEPT", module.KeptAnswer())
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for _ in range(3):
        (listed,) = module.listed_unfinished(Files(tmp_path / "store"))
    assert (asked, listed.state) == ([None], "stopped")
    squeue.write_text(f"1|PENDING|{listed.run_id}\n")
    now[0] += module.ASK_EACH_S - 0.1
    assert module.listed_unfinished(Files(tmp_path / "store"))[0].state == "stopped"
    now[0] += 0.2
    states = [module.listed_unfinished(Files(tmp_path / "store"))[0].state for _ in range(3)]
    assert states == ["queued"] * 3 and asked == [None, {"1": ("PENDING", listed.run_id)}]


def test_a_run_whose_tasks_wait_in_slurm_is_queued_and_neither_resumed_nor_removed(
    squeue: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", module.KeptAnswer())
    runs = [small.started(tmp_path / "store", folder, 2) for _ in range(3)]
    ids = [run.staging.id for run in runs]
    runs[0].staging.lock()
    squeue.write_text(f"1|RUNNING|{ids[0]}\n2_0|CANCELLED|{ids[1]}\n3_0|FAILED|{ids[2]}\n3_1|PENDING|{ids[2]}\n")
    listed = {run.run_id: run.state for run in module.listed_unfinished(Files(tmp_path / "store"))}
    assert listed == dict(zip(ids, ("being written", "stopped", "queued"), strict=True))
    runs[0].staging.release()
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    for command in (("run", "--resume", ids[2]), ("rm", ids[2], "--yes")):
        assert (
            run(*command).error
            == f"driftscope: Slurm has tasks of {ids[2]} in its queue. Wait for them, or `scancel 3`"
        )
    assert set(unfinished_ids(Files(tmp_path / "store"), RUN)) == set(ids)
    assert run("rm", ids[1], "--yes").code == 0
    assert set(unfinished_ids(Files(tmp_path / "store"), RUN)) == {ids[0], ids[2]}
    assert Staging.open(Files(tmp_path / "store"), RUN, ids[0]).id == ids[0]
