"""An empty store for each test; rooms whose tests begin with more have their own. No test waits for the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from engine.store.store import Store
from tests.engine.store.stored_runs import store_at


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """What is written through to the disk takes longer than most tests."""
    with mock.patch.object(os, "fsync"):
        yield
