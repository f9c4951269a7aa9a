"""Set-up of the whole suite: hypothesis profiles, the soak switch, workers, and one thread a process."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from engine.errors import DEBUG
from tests.support import SOAK, sized

# too_slow measures wall time, which says more about a busy machine than about a test.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# Examples follow from the test's own source: a run that was green stays green until the code changes.
# `--hypothesis-profile=explore` draws new ones instead.
settings.register_profile("test", COMMON, derandomize=True, database=None, max_examples=25)
settings.register_profile("soak", COMMON, derandomize=True, database=None, max_examples=500)
settings.register_profile("explore", COMMON, max_examples=1000)


def pytest_configure(config: pytest.Config) -> None:
    # Small models gain nothing from a second thread, and threads that wait for each other on a busy machine lose much.
    # Before torch is imported; xdist's workers and the processes that tests start inherit it.
    os.environ["OMP_NUM_THREADS"] = "1"
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in a script's background; the commands that tests interrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)  # would inherit it
    os.environ.setdefault(DEBUG, "1")  # what nobody foresaw fails a test, and is no sentence
    if config.option.markexpr == "soak":
        os.environ[SOAK] = "1"  # before collection, since `sized` is called while modules are imported
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile(sized("test", "soak"))


def pytest_collection_finish() -> None:
    gc.freeze()  # the modules stay to the end: what looks for garbage need not pass through them each time


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or libraries complain at the process's end of what was never let go of


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For ``-n auto``: a process per core, at least two, and few enough for the memory: each takes up to 2 GB."""
    return max(2, min(6, len(os.sched_getaffinity(0))))
