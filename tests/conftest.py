"""Set-up of the whole suite: hypothesis profiles and the soak switch."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support import SOAK, sized

# too_slow measures wall time, which says more about a busy machine than about a test.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# Examples follow from the test's own source: a run that was green stays green until the code changes.
# `--hypothesis-profile=explore` draws new ones instead.
settings.register_profile("test", COMMON, derandomize=True, database=None, max_examples=50)
settings.register_profile("soak", COMMON, derandomize=True, database=None, max_examples=1000)
settings.register_profile("explore", COMMON, max_examples=1000)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "soak":
        os.environ[SOAK] = "1"  # before collection, since `sized` is called while modules are imported
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile(sized("test", "soak"))
