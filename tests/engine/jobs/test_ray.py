"""Runs by actors of a Ray cluster: two machines' worth of it on the loopback, of which one loses its worker."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import RunError, StoreError
from engine.jobs import ray_run as module
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.ray_run import BLOCK, CHECK, TRIES, Actors, Pool, RayRun, RayWorker, connected
from engine.jobs.run import begin, molecules_of, resume
from engine.jobs.run_state import RunState
from engine.models.loading import load_outline
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from engine.store.store import Store
from tests.cli import run_json
from tests.engine.jobs.small_runs import choice, content, finished, molecules, plan_of, started
from tests.small_models import small_folder
from tests.support import of_soak, sized

MOLECULES = sized(6, 16)  # in groups of one: a worker that is killed has some before and some behind it
ASKED: dict[str, Any] = {"group": 1, "plan": {"limit": 400}}
HERE = Pool(1, 0, 1)
# Ray Data sets options of its own that it has deprecated itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process writes."""
    return content(finished(started(tmp_path_factory.mktemp("whole"), folder, MOLECULES, **ASKED)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two machines with a core each, which are processes of this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # all on the loopback
        patch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
        from ray.cluster_utils import Cluster

        machine: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}
        one = Cluster(initialize_head=True, head_node_args={**machine, "node_ip_address": "127.0.0.1"})
        one.add_node(**machine, node_ip_address="127.0.0.1")
        patch.setenv("RAY_ADDRESS", one.address)
        yield one.address
        one.shutdown()


def begun(place: Path, folder: Path, model: ModelChoice | None = None) -> tuple[Any, RunPlan]:
    outline = load_outline(choice(folder).entry())
    plan = replace(plan_of(folder, **ASKED), model=model or choice(folder))
    staging = begin(LocalFiles(place), outline, molecules(MOLECULES), plan, parts=2, on_gpu=False)
    return resume(staging.files, staging.id)


def ray_run(place: Path, folder: Path, pool: Pool, model: ModelChoice | None = None) -> RayRun:
    staging, plan = begun(place, folder, model)
    return RayRun(staging, molecules_of(staging), plan, plan.model.entry(), pool)


def entry_in(place: Path) -> Entry:
    (entry,) = Store(LocalFiles(place)).found().entries
    return entry


def tries(one: RunState) -> list[tuple[int, int]]:
    """Groups that were begun, in the order of time, each with its process."""
    files, folder = one.staging.files, one.staging.folder
    names = sorted((name for name in files.sizes(folder) if name.startswith("try-")), key=lambda name: name[-19:])
    return [(int(name.split("-")[2]), int(files.read(f"{folder}/{name}").split()[1])) for name in names]


def at_work(one: RunState) -> int:
    """The process of a group that was begun and is not there; 0 where there is none."""
    written = {int(group.name.partition("-")[2]) for group in one.staging.groups()}
    return next((process for number, process in tries(one) if number not in written), 0)


# --- on a cluster -------------------------------------------------------------------------------------------------


@of_soak
def test_a_worker_that_is_killed_is_replaced_and_its_group_written_again(
    cluster: str, folder: Path, whole: Any, tmp_path: Path
) -> None:
    with connected(Actors(address=cluster)) as pool:
        assert pool == Pool(count=2, gpus=0, threads=1)  # one for each machine
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        for attempt in range(3):  # progress is told in bursts: all may be written when it is first told
            run = ray_run(tmp_path / str(attempt), folder, pool)
            done, killed = [], 0
            for now in run.progress():
                assert (now.samples, now.written) == (MOLECULES, now.done)
                done.append(now.done)
                if not killed and (killed := at_work(run)):
                    os.kill(killed, signal.SIGKILL)
            if killed:
                break
    assert done == list(range(1, MOLECULES + 1))
    began = tries(run)
    assert killed in [process for _, process in began]
    assert {number for number, _ in began} == set(range(MOLECULES))
    assert len({process for _, process in began}) == 3
    ranks = {group.name.partition("-")[0] for group in run.staging.groups()}
    assert len(ranks) == 2  # who came in the place of the dead one has its rank
    entry = run.publish()
    assert content(entry) == whole
    assert (entry.row["device"], entry.row["samples"], entry.row["resumed"]) == ("cpu", MOLECULES, 0)


@of_soak
def test_a_run_is_taken_up_by_the_command_line(
    cluster: str, folder: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    one = started(tmp_path, folder, MOLECULES, **ASKED)
    for _ in one.progress(lambda: len(one.finished) > 1):
        pass
    one.staging.release()
    (row,) = run_json("run", "--resume", one.staging.id, "--engine", "ray", "--store", str(tmp_path))
    assert (row["run_id"], row["resumed"], row["checked_samples"], row["diverged_samples"]) == (one.staging.id, 1, 1, 0)
    assert content(entry_in(tmp_path)) == whole


@of_soak
def test_a_model_that_no_actor_can_load_is_one_line(cluster: str, folder: Path, tmp_path: Path) -> None:
    with connected(Actors(address=cluster)) as pool:
        run = ray_run(tmp_path, folder, pool, choice(tmp_path / "gone"))
        with pytest.raises(RunError, match=r"^the actors failed: gone:path should be in .*gone") as raised:
            list(run.progress())
    assert "\n" not in str(raised.value)


@of_soak
def test_actors_that_no_machine_has_room_for(cluster: str) -> None:
    with (
        pytest.raises(RunError, match="no machine of the cluster has 2 cores and 0 GPUs"),
        connected(Actors(threads=2, address=cluster)),
    ):
        pass
    with (
        pytest.raises(RunError, match="no machine of the cluster has 1 cores and 1 GPUs"),
        connected(Actors(gpus=1, address=cluster)),
    ):
        pass


# --- a worker by itself -------------------------------------------------------------------------------------------


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker outside of any cluster."""
    monkeypatch.setattr(module, "_rank", lambda: 131510436879081)
    monkeypatch.setattr(module, "_job", lambda: "01000000")


def worker_of(run: RayRun) -> RayWorker:
    return RayWorker(run.staging.files.where, run.staging.id, run.entry, run.device, 1)


def blocks(run: RayRun) -> dict[int, pa.Table]:
    return {block["group"][0].as_py(): block for block in run._blocks()}


@pytest.mark.usefixtures("alone")
def test_a_worker_writes_the_groups_of_its_blocks(folder: Path, whole: Any, tmp_path: Path) -> None:
    run = ray_run(tmp_path, folder, HERE)
    given, worker = blocks(run), worker_of(run)
    assert list(given) == list(range(MOLECULES))
    assert all(block.schema == BLOCK for block in given.values())
    for number, block in given.items():
        (row,) = worker(block).to_pylist()
        assert row["name"] == f"131510436879081-{number:05d}"
    worker.writer.staging.release()
    assert content(run.publish()) == whole


@pytest.mark.usefixtures("alone")
def test_a_group_that_is_there_is_not_written_again(folder: Path, tmp_path: Path) -> None:
    run = ray_run(tmp_path, folder, HERE)
    block, worker = blocks(run)[0], worker_of(run)
    first = worker(block)
    assert worker(block) == first
    assert len(tries(run)) == 1
    worker.writer.staging.release()


@pytest.mark.usefixtures("alone")
def test_a_run_that_is_taken_up_has_some_samples_checked(folder: Path, tmp_path: Path) -> None:
    run = ray_run(tmp_path, folder, HERE)
    first = worker_of(run)
    first(blocks(run)[0])
    first.writer.staging.release()
    again = RayRun(*resume_with_molecules(run), run.entry, HERE)
    check = blocks(again)[CHECK]
    worker = worker_of(again)
    assert worker(check).num_rows == 0
    worker.writer.staging.release()
    (said,) = again.staging.notes()["resumed"]
    assert (said["checked"], said["diverged"]) == (1, 0)


def resume_with_molecules(run: RayRun) -> tuple[Any, Any, RunPlan]:
    staging, plan = resume(run.staging.files, run.staging.id)
    return staging, molecules_of(staging), plan


@pytest.mark.usefixtures("alone")
def test_a_group_that_fails_is_tried_again_and_then_given_up(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ray_run(tmp_path, folder, HERE)
    worker, block = worker_of(run), blocks(run)[0]

    def full(*_: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(worker.writer, "add", full)
    for _ in range(TRIES - 1):
        with pytest.raises(StoreError, match="the disk is full"):  # which Ray is told to try again
            worker(block)
    with pytest.raises(RunError, match=rf"group 0 failed {TRIES} times \(the disk is full\)"):
        worker(block)
    with pytest.raises(RunError, match=f"group 0 ended its actor {TRIES} times"):  # as if it had died each time
        worker(block)
    worker.writer.staging.release()


# --- what cannot be -----------------------------------------------------------------------------------------------


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RunError, match=r"Install it: pip install 'ray\[data\]'"), connected(Actors(address="x:1")):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_where_nobody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    told = rf"Ray does not start or answer at '{address}' \(.*refused\)\. See --address"
    with pytest.raises(RunError, match=told), connected(Actors()):
        pass
