"""A run while somebody sets the clock back: what it took, how far it is and what it holds do not change."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from engine.jobs import plan
from engine.jobs import run as run_module
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.jobs.small_runs import content, finished, loaded, opened, started
from tests.small_models import small_folder

FIRST = datetime(2026, 10, 25, 12, tzinfo=UTC)


def test_a_clock_set_back_by_an_hour_at_each_look_changes_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hours = small_folder(tmp_path / "model"), itertools.count()

    class SetBack(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> SetBack:
            return cls.fromtimestamp((FIRST - timedelta(hours=next(hours))).timestamp(), tz)

    expected = content(finished(started(tmp_path / "plain", folder, 4)))
    with monkeypatch.context() as patch:
        for module in (plan, run_module):
            patch.setattr(module, "datetime", SetBack)
        patch.setattr(time, "time", lambda: SetBack.now(UTC).timestamp())
        patch.setattr(time, "time_ns", lambda: int(SetBack.now(UTC).timestamp() * 1e9))
        run = started(tmp_path / "store", folder, 4)
        first = [next(progress) for progress in [run.progress()] for _ in range(3)]  # stopped in its second group
        run.staging.release()
        again = opened(run.staging, loaded(folder))
        second = list(again.progress())
        entry = again.publish()
    assert next(hours) > 4
    for seconds in ([one.seconds for one in first], [one.seconds for one in second]):
        assert seconds[0] >= 0 and seconds == sorted(seconds)
    assert all((left := one.seconds_left) is None or left >= 0 for one in (*first, *second))
    assert (second[0].done, second[-1].done) == (2, 4)
    assert content(entry) == expected
    assert min(entry.row[name] for name in ("wall_s", "template_s", "decode_s")) >= 0
    assert [found.id for found in Store(Files(tmp_path / "store")).found().entries] == [entry.id]
