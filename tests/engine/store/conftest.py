"""What tests of the store read: a store of two runs, each test its own copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.store.files import Files
from engine.store.store import Store
from tests.engine.store.stored_runs import store_at, written


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two whole runs, to be copied: writing them through to the disk takes longer than a test."""
    folder = tmp_path_factory.mktemp("whole")
    for name in ("one", "other"):
        written(Files(folder), name, steps=True)
    return folder


@pytest.fixture
def store(tmp_path: Path, whole: Path) -> Store:
    return store_at(shutil.copytree(whole, tmp_path / "store"))
