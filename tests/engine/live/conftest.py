"""A small model, and a service of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.service import Service
from tests.service_harness import PATIENCE_S
from tests.small_models import small_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(threads=1)
    yield made
    made.close(PATIENCE_S)
