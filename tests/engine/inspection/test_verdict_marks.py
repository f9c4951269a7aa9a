"""Verdicts at a glance: what is marked of a sample, and which sample is the worst."""

from __future__ import annotations

from typing import Any

import pytest

from engine.inspection.verdict_marks import marks_by_sample, marks_of, worst_first
from engine.paths import DATA
from engine.store.files import LocalFiles
from engine.store.store import Store

FLAGS = ("clean", "passed", "stereo_right", "geometry_right", "usable")
RIGHT: dict[str, Any] = {**dict.fromkeys(FLAGS, True), "checks": "", "lost_ang": None}


@pytest.mark.parametrize(
    ("changes", "codes", "wrong"),
    [
        ({}, ("right", "right", "right", "right"), 0),
        ({"stereo_right": None}, ("right", "unknown", "right", "right"), 0),  # nothing is specified
        ({"clean": False, "usable": False}, ("damaged", "right", "right", "wrong"), 1),
        ({"geometry_right": False, "usable": False, "checks": "clash"}, ("right", "right", "wrong", "wrong"), 1),
        (
            {"clean": False, "stereo_right": None, "geometry_right": None, "usable": False, "checks": "loaded"},
            ("damaged", "unknown", "unknown", "wrong"),
            3,
        ),
        ({"clean": False, "passed": False, "usable": None, "checks": None}, ("wrong", "right", "right", "unknown"), 1),
    ],
)
def test_the_marks_of_a_sample(changes: dict[str, Any], codes: tuple[str, ...], wrong: int) -> None:
    marks = marks_of(RIGHT | changes)
    assert (marks.text, marks.stereo, marks.geometry, marks.usable) == codes
    assert marks.wrong == wrong


def test_the_worst_over_all_runs_comes_first_and_equals_keep_their_order() -> None:
    good, bad = marks_of(RIGHT), marks_of(RIGHT | {"clean": False, "geometry_right": False})
    assert worst_first([{0: good, 1: bad, 2: good}, {0: good, 1: good}], 4) == [1, 0, 2, 3]
    unusable, moved = ({"usable": False, "clean": False, "lost_ang": ang} for ang in (None, 0.5))
    assert worst_first([{0: bad, 1: marks_of(RIGHT | unusable), 2: marks_of(RIGHT | moved)}], 3) == [2, 1, 0]


def test_marks_of_stored_runs_agree_with_their_samples() -> None:
    store = Store(LocalFiles(DATA / "demo"))
    runs = [
        next(entry.id for entry in store.found().entries if f"demo-llama-final-{lp}" in entry.id)
        for lp in ("group-v2.1", "exact")
    ]
    marks = marks_by_sample(store, runs)
    for run in runs:
        rows = store.rows("SELECT sample_id, clean, usable FROM samples WHERE run_id = $run", {"run": run})
        assert len(marks[run]) == len(rows) > 0
        assert all((marks[run][row["sample_id"]].text == "right") == row["clean"] for row in rows)
    assert any(one.text == "damaged" for one in marks[runs[0]].values())
