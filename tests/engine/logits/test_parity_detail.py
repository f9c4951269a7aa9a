"""Where two logs differ: by position, value against value, and what only one of them has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.logits import parity_detail
from engine.logits.parity_detail import coverage, detail
from tests.engine.logits.logs import clean, objects
from tests.engine.logits.test_parity import Pair, garbled, near


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_positions_differ_by_what_they_are_said_to(pair: Pair) -> None:
    rows, other = clean(30, 7), near(clean(30, 7), 0.5)
    control, test = pair.add(objects(rows), "one"), pair.add(objects(other), "other")
    found = detail(pair.store, control, test, "logits")
    assert [position.position for position in found.positions] == list(range(7))
    difference = other - rows
    for position in found.positions:
        own = difference[:, position.position]
        assert (position.values, position.flagged) == (30, 0)
        assert position.max_difference == pytest.approx(np.abs(own).max())
        assert position.mean_difference == pytest.approx(np.abs(own).mean())
        assert position.shift == pytest.approx(own.mean())
    assert (found.sound, found.flagged, len(found.points)) == (210, 0, 210)
    assert found.points.control == pytest.approx(rows.reshape(-1))
    assert found.points.test == pytest.approx(other.reshape(-1))
    assert found.token_idx.tolist() == np.repeat(np.arange(30), 7).tolist()


def test_flagged_pairs_stand_apart(pair: Pair) -> None:
    rows = clean(30, 8)
    broken = garbled(rows, 0)
    broken[3, 5] = np.nan
    control, test = pair.add(objects(broken), "one"), pair.add(objects(near(rows)), "other")
    found = detail(pair.store, control, test, "logits")
    assert (found.sound, found.flagged, found.not_finite) == (224, 16, 1)
    assert [position.flagged for position in found.positions] == [15, 0, 0, 0, 0, 1, 0, 0]
    assert max(position.max_difference or 0 for position in found.positions) < 1e-2
    assert found.points.is_flagged.sum() == 15, "what is no number has no place"
    assert (np.abs(found.points.control) > 1e10).sum() == 15
    broken[:, 0] = np.inf
    whole = detail(pair.store, pair.add(objects(broken), "one"), test, "logits")
    assert (whole.positions[0].mean_difference, whole.positions[0].flagged) == (None, 30)


def test_few_of_many_are_drawn_and_the_worst_positions_stay(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity_detail, "MOST_SOUND", 10)
    monkeypatch.setattr(parity_detail, "MOST_FLAGGED", 3)
    monkeypatch.setattr(parity_detail, "MOST_POSITIONS", 2)
    rows = clean(30, 8)
    other = rows.copy()
    other[:, 6] += 0.25
    other[:, 2] += 0.125
    control, test = pair.add(objects(garbled(rows, 0)), "one"), pair.add(objects(other), "other")
    found = detail(pair.store, control, test, "logits")
    assert (found.points.is_flagged.sum(), (~found.points.is_flagged).sum()) == (3, 10)
    assert ([position.position for position in found.positions], found.positions_left_out) == ([2, 6], 6)
    assert (found.sound, found.flagged) == (225, 15)


def test_what_each_log_has_is_told_of_logs_that_share_nothing_too(pair: Pair) -> None:
    rows = clean(20, 6)
    control = pair.add([*objects(rows[:2], checkpoint="embedding"), *objects(rows)], "one")
    test = pair.add(objects(rows, checkpoint="layer_9")[5:], "other")
    found = {one.checkpoint: one for one in coverage(pair.store, control, test)}
    assert set(found) == {"embedding", "logits", "layer_9"}
    assert found["logits"].test is None and found["layer_9"].control is None
    own = found["layer_9"].test
    assert own is not None and (own.entries, own.values, own.first_token, own.last_token) == (15, 90, 5, 19)
    assert {one.both for one in found.values()} == {0}
    both = coverage(pair.store, control, pair.add(objects(rows[:7]), "other"))
    assert [one.both for one in both if one.checkpoint == "logits"] == [7]
