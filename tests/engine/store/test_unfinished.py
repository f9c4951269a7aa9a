"""Runs that are not in the store yet: how far, by whom, and away with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import RunError
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging, Unfinished, abandon, check_idle, unfinished_runs
from tests.engine.store.stored_runs import MADE_AT, add, begun, published


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "store")


def test_how_far_each_is_and_whether_it_can_go_on(files: Files) -> None:
    assert unfinished_runs(files) == []
    row = {"created_at": MADE_AT, "origin": "measured", "lp": "none"}
    planned = Staging.create(files, RUN, "planned", row, plan={}, samples=10)
    add(planned, range(4))
    add(begun(files, "import", 3), [0])
    begun(files, "torn")
    (files.root / "staging" / "torn" / "run.json").write_text("{")
    found = {unfinished_run.run_id: unfinished_run for unfinished_run in unfinished_runs(files)}
    assert found["planned"] == Unfinished("planned", "stopped", 4, 10, {**row, "run_id": "planned"}, can_resume=True)
    assert (found["import"].samples_done, found["import"].can_resume) == (1, False)
    assert found["torn"] == Unfinished("torn", "damaged", None, None, {}, can_resume=False)


def test_what_is_being_written_is_not_thrown_away(files: Files) -> None:
    staging = begun(files, "busy")
    staging.lock()
    assert [unfinished_run.state for unfinished_run in unfinished_runs(files)] == ["being written"]
    for refuse in (check_idle, abandon):
        with pytest.raises(RunError, match="busy is being written by another process"):
            refuse(files, "busy")
    staging.release()
    abandon(files, "busy")
    assert unfinished_runs(files) == []


def test_what_is_finished_meanwhile_stays(files: Files) -> None:
    staging = begun(files, "quick")
    add(staging, range(4))
    published(staging)
    for name in ("quick", "../runs", "nothing"):
        with pytest.raises(RunError, match="is not unfinished any more"):
            abandon(files, name)
    assert files.folders("runs") == ["run_id=quick"]
