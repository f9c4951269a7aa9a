"""An empty store for each test; rooms whose tests begin with more have their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.store import Store
from tests.engine.store.stored_runs import store_at


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")
