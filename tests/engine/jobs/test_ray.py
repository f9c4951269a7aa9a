"""Runs by actors of a Ray cluster: two machines' worth of it on the loopback, of which one loses its worker."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RunError
from engine.jobs.cluster import Cluster, TaskRun, connected
from engine.jobs.plan import ModelChoice
from engine.jobs.run import begin, molecules_of, resume
from engine.models.loading import load_outline
from engine.store.files import Files
from tests.engine.jobs.small_runs import choice, content, finished, molecules, plan_of, started
from tests.support import of_soak, sized

MOLECULES = sized(6, 16)  # in groups of one: a worker that is killed has some before and some behind it
ASKED: dict[str, Any] = {"group": 1, "plan": {"limit": 400}}


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
        from ray.cluster_utils import Cluster as Machines

        machine: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}
        one = Machines(initialize_head=True, head_node_args={**machine, "node_ip_address": "127.0.0.1"})
        one.add_node(**machine, node_ip_address="127.0.0.1")
        patch.setenv("RAY_ADDRESS", one.address)
        yield one.address
        one.shutdown()


def ray_run(place: Path, folder: Path, pool: Cluster, model: ModelChoice | None = None) -> TaskRun:
    outline = load_outline(choice(folder).entry())
    plan = replace(plan_of(folder, **ASKED), model=model or choice(folder))
    staging = begin(Files(place), outline, molecules(MOLECULES), plan, parts=2, on_gpu=False)
    staging, plan = resume(staging.files, staging.id)
    return TaskRun(staging, molecules_of(staging), plan, pool)


def at_work() -> int:
    """A process that carries out a task now; 0 where there is none."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().startswith((b"ray::__call__", b"ray::ClusterTask")):
                return int(path.parent.name)
    return 0


# --- on a cluster -------------------------------------------------------------------------------------------------


@of_soak
def test_a_worker_that_is_killed_is_replaced_and_its_group_written_again(
    cluster: str, folder: Path, whole: Any, tmp_path: Path
) -> None:
    with connected(Cluster("ray", address=cluster)) as pool:
        assert (pool.tasks, pool.gpus, pool.threads) == (2, 0, 1)  # one for each machine
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        run = ray_run(tmp_path, folder, pool)
        done, killed = [], 0
        for now in run.progress():
            assert (now.samples, now.written) == (MOLECULES, now.done)
            done.append(now.done)
            if not killed and (killed := at_work()):
                os.kill(killed, signal.SIGKILL)
    assert killed and done == list(range(1, len(done) + 1))
    assert MOLECULES // 2 < len(done) < MOLECULES  # with the last group it is in the store
    ranks = {group.name.partition("-")[0] for group in run.finished}
    assert ranks == {"0000", "0001"}  # who came in the place of the dead one has its rank
    entry = run.publish()
    assert content(entry) == whole
    assert (entry.row["device"], entry.row["samples"], entry.row["diverged_samples"]) == ("cpu", MOLECULES, 0)


# --- what cannot be -----------------------------------------------------------------------------------------------


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RunError, match=r"Install it: pip install ray"), connected(Cluster("ray", address="x:1")):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_where_nobody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    told = rf"Ray does not start or answer at '{address}' \(.*refused\)\. See --address"
    with pytest.raises(RunError, match=told), connected(Cluster("ray")):
        pass
