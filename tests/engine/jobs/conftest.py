"""A small model, and services for single tests; their workers end with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine.jobs.service import Service
from tests.service_harness import PATIENCE_S, ServiceHarness
from tests.small_models import small_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close(PATIENCE_S)


@pytest.fixture
def make_harness() -> Iterator[Callable[..., ServiceHarness]]:
    with ExitStack() as made:

        def make(**options: Any) -> ServiceHarness:
            harness = ServiceHarness(**options)
            made.callback(harness.clean)
            return harness

        yield make


@pytest.fixture
def harness(make_harness: Callable[..., ServiceHarness]) -> ServiceHarness:
    return make_harness()
