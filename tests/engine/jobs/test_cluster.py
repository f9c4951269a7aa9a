"""Runs by tasks: what each writes, who shows the run, what becomes of tasks that die, what Slurm is asked for."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import Mock

import pytest

from engine.errors import RunError
from engine.jobs import cluster as module
from engine.jobs.cluster import Cluster, ClusterTask, TaskRun, connected, problem_of, shares
from engine.jobs.plan import ModelChoice
from engine.jobs.run import Run, begin, molecules_of, resume
from engine.models.loading import load_outline
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging
from tests.engine.jobs.small_runs import (
    choice,
    content,
    entry_in,
    fake_slurm,
    finished,
    loaded,
    molecules,
    plan_of,
    started,
)
from tests.support import of_soak

MOLECULES = 6  # in groups of two
DEBUG = Cluster("debug", tasks=2)


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process writes."""
    return content(finished(started(tmp_path_factory.mktemp("whole"), folder, MOLECULES)))


def account(place: Path, folder: Path, cluster: Cluster, model: ModelChoice | None = None) -> TaskRun:
    """A run that is begun on a machine which never loads the model; ``model`` is what tasks look for."""
    outline, some = load_outline(choice(folder).entry()), molecules(MOLECULES)
    plan = replace(plan_of(folder), model=model or choice(folder))
    return opened(begin(Files(place), outline, some, plan, parts=2, on_gpu=False), cluster)


def opened(staging: Staging, cluster: Cluster = DEBUG) -> TaskRun:
    again, plan = resume(staging.files, staging.id)
    return TaskRun(again, molecules_of(again), plan, cluster)


def task(one: TaskRun, rank: int, *groups: int) -> ClusterTask:
    return ClusterTask("debug", one.staging.files.where, one.staging.id, rank, groups, "cpu")


def problems(run: TaskRun) -> list[str]:
    """Of its tasks, when all have ended."""
    list(run.progress())
    return list(filter(None, map(problem_of, run.jobs or ())))


# --- tasks that come to their end ---------------------------------------------------------------------------------


def test_tasks_in_this_process_write_what_one_process_writes(folder: Path, whole: Any, tmp_path: Path) -> None:
    one = account(tmp_path, folder, DEBUG)
    assert problems(one) == [] and one.jobs is not None and len(one.jobs) == 2
    entry = one.publish()  # a task did it
    assert content(entry) == whole and entry.row == entry_in(tmp_path).row
    assert (entry.row["device"], entry.row["dtype"], entry.row["resumed"]) == ("cpu", "float32", 0)
    assert entry.row["threads"]


@of_soak
def test_a_task_that_is_killed_is_taken_up_by_resume(
    folder: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.01)
    one = account(tmp_path, folder, Cluster("local"))
    one.submit()
    (job,) = list(one.jobs or ())
    os.kill(int(job.job_id), signal.SIGINT)  # as Ctrl-C does to all that came from a terminal: the task goes on
    next(one.progress())
    os.kill(int(job.job_id), signal.SIGTERM)  # what `cancel` names
    assert problems(one) == [f"task {job.job_id} ended without a message (finished)"]
    with pytest.raises(RunError, match=f"is unfinished: task {job.job_id} ended without"):
        one.publish()
    again = opened(one.staging)
    assert len(again.left()) in (1, 2)
    last = Run(again.staging, loaded(folder), again.molecules, again.plan)
    assert content(finished(last)) == whole


def test_a_resumed_run_is_handed_out_again_and_the_first_task_checks_it(
    folder: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = account(tmp_path, folder, DEBUG)
    late = task(one, 1, 1)
    late()
    assert opened(one.staging).left() == [0, 2]
    assert problems(opened(one.staging)) == []
    entry = entry_in(tmp_path)
    assert content(entry) == whole
    assert (entry.row["resumed"], entry.row["checked_samples"], entry.row["diverged_samples"]) == (1, 2, 0)
    monkeypatch.setattr(module, "load_model", None)
    late()  # it comes when all is done


def test_a_group_that_two_tasks_wrote_counts_once(folder: Path, whole: Any, tmp_path: Path) -> None:
    one = account(tmp_path, folder, DEBUG)
    late = Run(Staging.open(one.staging.files, RUN, one.staging.id), loaded(folder), one.molecules, one.plan, rank=7)
    task(one, 0, 0, 1)()
    list(late.progress(groups=[1]))  # it began before, and was thought dead
    late.staging.release()
    assert len(list((tmp_path / "staging" / one.staging.id).glob("group-*-00001.json"))) == 2
    task(one, 1, 2)()
    entry = entry_in(tmp_path)
    assert content(entry) == whole
    assert entry.row["samples"] == MOLECULES


def test_many_who_show_a_run_at_once_show_it_once(
    folder: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file system has no locks."""
    one = account(tmp_path, folder, DEBUG)
    run = Run(one.staging, loaded(folder), one.molecules, one.plan)
    list(run.progress())
    one.staging.release()
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(37, "No locks available")))
    accounts, together = [opened(one.staging) for _ in range(8)], Barrier(8)

    def show(own: TaskRun) -> str:
        together.wait()
        return own.publish().id

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(show, accounts)) == {one.staging.id}
    assert content(entry_in(tmp_path)) == whole


# --- what is known without the weights ----------------------------------------------------------------------------


def test_groups_are_small_enough_for_every_part(folder: Path) -> None:
    for group, molecule_count, parts, on_gpu, size in (
        (3, 1000, 4, True, 3),  # what was asked for
        (0, 1000, 1, False, 16),  # four batches of four
        (0, 1000, 4, True, 63),  # four groups a part
        (0, 1000, 100, False, 4),  # a batch at least
        (0, 6, 2, False, 3),  # but some for every part
    ):
        assert plan_of(folder, group=group).grouped(molecule_count, parts, on_gpu=on_gpu).molecules_a_group == size


def test_shares() -> None:
    assert shares([0, 1, 2, 3, 4], 2) == [(0, 2, 4), (1, 3)]
    assert shares([3, 4], 5, {0, 1}) == [(0, 1, 3), (4,)]
    assert shares([], 5, {0, 1}) == []


# --- clusters -----------------------------------------------------------------------------------------------------


def test_a_task_that_has_to_go_is_queued_again_as_it_is(folder: Path) -> None:
    one = ClusterTask("slurm", "/store", "run", 3, (3, 7), "auto")
    again = one.checkpoint()
    assert again.function == one == pickle.loads(pickle.dumps(one))


@pytest.mark.parametrize(
    ("cluster", "device", "said"),
    [
        (Cluster("a100", gpus=2, minutes=90), "auto", {"gres": "gpu:a100:2", "time": 90}),
        (Cluster("h100"), "cpu", {"time": 240}),
        (Cluster("slurm", gpus=1, threads=8), "auto", {"gres": "gpu:1", "cpus_per_task": 8}),
        (Cluster("slurm", tasks=9, more={"account": "chem"}), "auto", {"additional_parameters": {"account": "chem"}}),
    ],
)
def test_what_slurm_is_asked_for(cluster: Cluster, device: str, said: dict[str, Any]) -> None:
    asked = cluster.for_slurm(device)
    assert said.items() <= asked.items()
    assert asked["array_parallelism"] == (cluster.tasks or 1)
    assert ("gres" in asked) == ("gres" in said)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands of Slurm's names; what is submitted is kept in this file."""
    kept = tmp_path / "submitted.sh"
    fake_slurm(tmp_path, monkeypatch, f'cp "$1" {kept}')
    return kept


def test_slurm_gets_an_array_with_the_gpu_that_was_named(folder: Path, tmp_path: Path, slurm: Path) -> None:
    cluster = Cluster("h100", tasks=3, partition="long", minutes=90, more={"account": "chem lab"})
    one = account(tmp_path / "store", folder, cluster, ModelChoice(folder=str(folder)))
    with connected(cluster):
        one.submit()
    assert one.ids == ["4711_0", "4711_1", "4711_2"]
    assert one.cancel == "scancel 4711"
    lines = slurm.read_text().splitlines()
    for line in ("gres=gpu:h100:1", "partition=long", "time=90", "array=0-2%3", "account='chem lab'"):
        assert f"#SBATCH --{line}" in lines
    assert any(sys.executable in line and "submitit.core._submit" in line for line in lines)
    assert len(list(one.logs.glob("*_submitted.pkl"))) == 3


def test_what_slurm_refuses_is_one_line(folder: Path, tmp_path: Path, slurm: Path, capfd: Any) -> None:
    (slurm.parent / "bin" / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n")
    with pytest.raises(RunError, match=r"slurm refused the tasks: sbatch: error: invalid partition\. Resume"):
        account(tmp_path / "store", folder, Cluster("slurm")).submit()
    assert capfd.readouterr().err == ""


def test_without_submitit_or_slurm_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RunError, match="sbatch is not installed here"), connected(Cluster("h100")):
        pass
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(RunError, match=r"Install it: pip install submitit"), connected(Cluster("local")):
        pass


def test_what_went_wrong_in_a_task_is_one_line(folder: Path, tmp_path: Path) -> None:
    one = account(tmp_path, folder, DEBUG, choice(tmp_path / "gone"))
    (first, second) = problems(one)
    assert "there is no such folder" in first and "\n" not in first and first == second
    with pytest.raises(RunError, match=r"is unfinished: .*there is no such folder.* run --resume"):
        one.publish()
