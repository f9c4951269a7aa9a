"""A run that is killed at any moment goes on to the content of an undisturbed one, and nothing half is ever shown."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from engine.lp_records import GuardSettings
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging, unfinished_ids
from engine.store.store import Store, damaged_parts
from tests.engine.jobs.small_runs import content, finished, loaded, molecules, opened, plan_of, started
from tests.support import of_soak, sized

MOLECULES = sized(4, 8)
PRELOADED = ["tests.engine.jobs.warm"]
"""A process that has imported this makes the others: each starts at once."""
PLANS = {
    "exact": {"limit": 24},
    "guarded": {"lp": "guarded", "limit": 48, "guard": GuardSettings(2, 1, ("bonds", "stereo"), 1.5)},
}


def work(store: str, folder: str, run_id: str, lp: str) -> None:
    """In a process of its own: begin a run, or go on with one, to its end."""
    import torch

    from engine.jobs.run import begin

    torch.set_num_threads(1)
    model, files = loaded(Path(folder)), Files(Path(store))
    if run_id:
        staging = Staging.open(files, RUN, run_id)
    else:
        staging = begin(files, model, molecules(MOLECULES), plan_of(Path(folder), keep_steps=4, plan=PLANS[lp]))
    finished(opened(staging, model))


@of_soak
@pytest.mark.parametrize("lp", PLANS)
def test_a_run_killed_at_random_moments_resumes_to_the_same_content(lp: str, folder: Path, tmp_path: Path) -> None:
    whole = content(finished(started(tmp_path / "whole", folder, MOLECULES, keep_steps=4, plan=PLANS[lp])))
    assert ("tries" in whole) == (lp == "guarded")
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(PRELOADED)
    for name in ("first", "timed"):  # the first one also waits for what it is forked from
        began = time.monotonic()
        undisturbed = processes.Process(target=work, args=(str(tmp_path / name), str(folder), "", lp))
        undisturbed.start()
        undisturbed.join()
        assert undisturbed.exitcode == 0
        seconds = time.monotonic() - began
    chance = random.Random(0)
    kills = finishes = 0
    while kills < sized(1, 15):
        store = tmp_path / f"st öre {finishes} '[*]"
        run_id = ""
        while not (shown := Store(Files(store)).listing()).entries:
            assert shown.damages == ()
            process = processes.Process(target=work, args=(str(store), str(folder), run_id, lp))
            process.start()
            process.join(chance.uniform(0, seconds))
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL)
            run_id = next(iter(unfinished_ids(Files(store), RUN)), "")
        (entry,) = shown.entries
        assert content(entry) == whole
        assert damaged_parts(entry) == []
        assert entry.row["samples"] == MOLECULES
        assert entry.row["diverged_samples"] == 0
        finishes += 1
