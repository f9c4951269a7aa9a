"""What the tests of training share: one small packed corpus for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.training.corpus_source import write_packed


@pytest.fixture(scope="session")
def small_packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_packed(tmp_path_factory.mktemp("small"))
