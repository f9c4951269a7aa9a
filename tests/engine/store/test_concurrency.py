"""Processes that write, remove and read one store at the same time: nothing is lost, and nobody gets an error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.store.schema import RUN
from engine.store.staging import unfinished_ids
from engine.store.store import damaged_parts
from tests.engine.store.crowd import lasting
from tests.engine.store.stored_runs import store_at
from tests.support import ROOT, sized

WRITERS, READERS = sized(8, 20), 4
RUNS = sized(6, 32)
"""Of each writer: some seconds' worth, or a minute's."""


@pytest.mark.soak
def test_processes_write_while_others_read(tmp_path: Path) -> None:
    """A reader sees a run whole or not at all, whatever is shown, annotated, swept or removed beside it."""
    numbers = [str(number) for number in (WRITERS, READERS, RUNS)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.store.crowd", str(tmp_path), *numbers],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    met = json.loads(done.stdout)
    assert len(met) == READERS
    assert all(one["looks"] >= 2 and one["rows"] >= len(lasting(WRITERS, RUNS)) for one in met)
    store = store_at(tmp_path)
    found = store.found()
    assert found.damages == ()
    assert {entry.id: entry.row["samples"] for entry in found.entries} == lasting(WRITERS, RUNS)
    assert not any(damaged_parts(entry) for entry in found.entries)
    assert {entry.row["label"] for entry in found.entries} == {f"of {writer}" for writer in range(WRITERS)}
    assert unfinished_ids(store.home, RUN) == []
    assert list((tmp_path / "staging").iterdir()) == []
