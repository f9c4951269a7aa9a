"""Runs by tasks: what each writes, who shows the run, what becomes of tasks that die, what Slurm is asked for."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from tests.engine.jobs import small_runs as small
from tests.support import of_soak

MOLECULES = 6  # in groups of two
DEBUG = Cluster("debug", tasks=2)
ACCOUNT = {"requeue": True, "account": "chem"}


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process writes."""
    return small.content(small.finished(small.started(tmp_path_factory.mktemp("whole"), folder, MOLECULES)))


def account(
    store: Path, folder: Path, cluster: Cluster, model: ModelChoice | None = None, count: int = MOLECULES, **more: Any
) -> TaskRun:
    """A run that is begun on a machine which never loads the model; ``model`` is what tasks look for."""
    plan = replace(small.plan_of(folder, **more), model=model or small.choice(folder))
    outline = load_outline(small.choice(folder).entry())
    return opened(begin(Files(store), outline, small.molecules(count), plan, parts=2, on_gpu=False), cluster)


def opened(staging: Staging, cluster: Cluster = DEBUG) -> TaskRun:
    again, plan = resume(staging.files, staging.id)
    return TaskRun(again, molecules_of(again), plan, cluster)


def task(run: TaskRun, rank: int, *groups: int) -> ClusterTask:
    return ClusterTask("debug", run.staging.files.where, run.staging.id, rank, groups, "cpu")


def problems(run: TaskRun) -> list[str]:
    """Of its tasks, when all have ended."""
    list(run.progress())
    return list(filter(None, map(problem_of, run.jobs or ())))


# --- tasks that come to their end ---------------------------------------------------------------------------------
def test_tasks_in_this_process_write_what_one_process_writes(folder: Path, whole: Any, tmp_path: Path) -> None:
    run = account(tmp_path, folder, DEBUG)
    assert problems(run) == [] and run.jobs is not None and len(run.jobs) == 2
    entry = run.publish()  # a task did it
    assert small.content(entry) == whole and entry.row == small.entry_in(tmp_path).row
    assert (entry.row["device"], entry.row["dtype"], entry.row["resumed"]) == ("cpu", "float32", 0)
    assert entry.row["threads"]


@of_soak
def test_a_task_that_is_killed_is_taken_up_by_resume(
    folder: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.01)
    run = account(tmp_path, folder, Cluster("local"))
    run.submit()
    (job,) = list(run.jobs or ())
    os.kill(int(job.job_id), signal.SIGINT)  # as Ctrl-C does to all that came from a terminal: the task goes on
    next(run.progress())
    os.kill(int(job.job_id), signal.SIGTERM)  # what `cancel` names
    assert problems(run) == [f"task {job.job_id} ended without a message (finished)"]
    with pytest.raises(RunError, match=f"is unfinished: task {job.job_id} ended without"):
        run.publish()
    again = opened(run.staging)
    assert len(again.left()) in (1, 2)
    last = Run(again.staging, small.loaded(folder), again.molecules, again.plan)
    assert small.content(small.finished(last)) == whole


def test_a_resumed_run_is_handed_out_again_and_the_first_task_checks_it(
    folder: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = account(tmp_path, folder, DEBUG)
    late = task(run, 1, 1)
    late()
    assert opened(run.staging).left() == [0, 2]
    assert problems(opened(run.staging)) == []
    entry = small.entry_in(tmp_path)
    assert small.content(entry) == whole
    assert (entry.row["resumed"], entry.row["checked_samples"], entry.row["diverged_samples"]) == (1, 2, 0)
    monkeypatch.setattr(module, "load_model", None)
    late()  # it comes when all is done


def test_a_group_that_two_tasks_wrote_counts_once(folder: Path, whole: Any, tmp_path: Path) -> None:
    run = account(tmp_path, folder, DEBUG)
    late = Run(
        Staging.open(run.staging.files, RUN, run.staging.id), small.loaded(folder), run.molecules, run.plan, rank=7
    )
    task(run, 0, 0, 1)()
    list(late.progress(groups=[1]))  # it began before, and was thought dead
    late.staging.release()
    assert len(list((tmp_path / "staging" / run.staging.id).glob("group-*-00001.json"))) == 2
    task(run, 1, 2)()
    entry = small.entry_in(tmp_path)
    assert small.content(entry) == whole
    assert entry.row["samples"] == MOLECULES


# --- what is known without the weights ----------------------------------------------------------------------------
def test_groups_are_small_enough_for_every_part(folder: Path) -> None:
    for group, molecule_count, parts, on_gpu, size in (
        (3, 1000, 4, True, 3),  # what was asked for
        (0, 1000, 1, False, 16),  # four batches of four
        (0, 1000, 4, True, 63),  # four groups a part
        (0, 1000, 100, False, 4),  # a batch at least
        (0, 6, 2, False, 3),  # but some for every part
    ):
        assert (
            small.plan_of(folder, group=group).grouped(molecule_count, parts, on_gpu=on_gpu).molecules_a_group == size
        )


def test_shares() -> None:
    assert shares([0, 1, 2, 3, 4], 2) == [(0, 2, 4), (1, 3)]
    assert shares([3, 4], 5, {0, 1}) == [(0, 1, 3), (4,)]
    assert shares([], 5, {0, 1}) == []


# --- clusters -----------------------------------------------------------------------------------------------------
def test_a_task_that_has_to_go_is_queued_again_as_long_as_it_saves_something(folder: Path, tmp_path: Path) -> None:
    """A run of days reaches the time limit again and again, and goes on each time; submitit gave up the fourth time."""
    run = account(tmp_path, folder, DEBUG)
    queued = task(run, 0, 0, 1, 2)
    seen = []
    for group in (None, None, 0, 1, None, None):
        if group is not None:
            task(run, 0, group)()
        queued = queued.checkpoint().function
        assert queued == pickle.loads(pickle.dumps(queued)) and queued.groups == (0, 1, 2)
        seen.append((queued.saved, queued.idle))
    assert seen == [(0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2)]
    with pytest.raises(RunError, match=r"task 0 was stopped 3 times in a row before it saved anything\. Give"):
        queued.checkpoint()


@pytest.mark.parametrize(
    ("cluster", "device", "said"),
    [
        (Cluster("a100", gpus=2, minutes=90), "auto", {"gres": "gpu:a100:2", "time": 90, "signal_delay_s": 90}),
        (Cluster("slurm", minutes=2), "auto", {"signal_delay_s": 30}),  # 90 s of two minutes leave no time to load
        (Cluster("h100"), "cpu", {"time": 240}),
        (Cluster("slurm", gpus=1, threads=8), "auto", {"gres": "gpu:1", "cpus_per_task": 8}),
        (Cluster("slurm", tasks=9, more={"account": "chem"}), "auto", {"additional_parameters": ACCOUNT}),
    ],
)
def test_what_slurm_is_asked_for(cluster: Cluster, device: str, said: dict[str, Any]) -> None:
    parameters = cluster.for_slurm(device)
    assert said.items() <= parameters.items()
    assert parameters["array_parallelism"] == (cluster.tasks or 1)
    assert ("gres" in parameters) == ("gres" in said)


def test_what_slurm_refuses_is_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    small.fake_slurm(tmp_path, monkeypatch, "echo 'sbatch: error: invalid partition' >&2; exit 1")
    with pytest.raises(RunError, match=r"Slurm refused the tasks: sbatch: error: invalid partition\. Resume"):
        account(tmp_path / "store", folder, Cluster("slurm")).submit()
    assert capfd.readouterr().err == ""


def test_what_went_wrong_in_a_task_is_one_line(folder: Path, tmp_path: Path) -> None:
    run = account(tmp_path, folder, DEBUG, small.choice(tmp_path / "gone"))
    (first, second) = problems(run)
    assert "there is no such folder" in first and "\n" not in first and first == second
    with pytest.raises(RunError, match=r"is unfinished: .*there is no such folder.* run --resume"):
        run.publish()


# --- Ray: two machines' worth of it on the loopback, of which one loses its worker ------------------------------------
@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two machines with a core each, which are processes of this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # all on the loopback
        patch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
        from ray.cluster_utils import Cluster as Machines

        machine: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}
        machines = Machines(initialize_head=True, head_node_args={**machine, "node_ip_address": "127.0.0.1"})
        machines.add_node(**machine, node_ip_address="127.0.0.1")
        patch.setenv("RAY_ADDRESS", machines.address)
        yield machines.address
        machines.shutdown()


def at_work() -> int:
    """A process that carries out a task now; 0 where there is none."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().startswith((b"ray::__call__", b"ray::ClusterTask")):
                return int(path.parent.name)
    return 0


@of_soak
def test_a_worker_that_is_killed_is_replaced_and_its_group_written_again(
    cluster: str, folder: Path, tmp_path: Path
) -> None:
    count, options = 16, dict[str, Any](group=1, plan={"limit": 400})
    whole = small.content(small.finished(small.started(tmp_path / "whole", folder, count, **options)))
    with connected(Cluster("ray", address=cluster)) as pool:
        assert (pool.tasks, pool.gpus, pool.threads) == (2, 0, 1)  # one for each machine
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        run = account(tmp_path, folder, pool, count=count, **options)
        done, killed = [], 0
        for now in run.progress():
            assert (now.samples, now.written) == (count, now.done)
            done.append(now.done)
            if not killed and (killed := at_work()):
                os.kill(killed, signal.SIGKILL)
    assert killed and done == list(range(1, len(done) + 1))
    assert count // 2 < len(done) <= count  # the last group may be in the store before it is counted
    ranks = {group.name.partition("-")[0] for group in run.finished}
    assert ranks == {"0000", "0001"}  # who came in the place of the dead one has its rank
    entry = run.publish()
    assert small.content(entry) == whole
    assert (entry.row["device"], entry.row["samples"], entry.row["diverged_samples"]) == ("cpu", count, 0)


def test_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "ray://127.0.0.1:1"
    monkeypatch.setenv("RAY_ADDRESS", address)
    message = rf"Ray does not start or answer at '{address}' \(.*refused\)\. See --address"
    with pytest.raises(RunError, match=message), connected(Cluster("ray")):
        pass
