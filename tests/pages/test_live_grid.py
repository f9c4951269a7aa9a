"""Verdicts at a glance: what is marked of a sample, and which sample is the worst."""

from __future__ import annotations

from typing import Any

import pytest

from pages._live.grid import code_of, harm_of, worst_first

FLAGS = ("clean", "passed", "stereo_right", "geometry_right", "usable")
RIGHT: dict[str, Any] = {**dict.fromkeys(FLAGS, True), "checks": "", "lost_ang": None}
UNJUDGED = {"stereo_right": None, "geometry_right": None}


@pytest.mark.parametrize(
    ("changes", "code", "wrong"),
    [
        ({}, "rrrr", 0),
        ({"stereo_right": None}, "r-rr", 0),  # nothing is specified
        ({"clean": False, "usable": False}, "drrw", 1),
        ({"geometry_right": False, "usable": False, "checks": "clash"}, "rrww", 1),
        ({"clean": False, **UNJUDGED, "usable": False, "checks": "loaded"}, "d--w", 3),
        ({"clean": False, "passed": False, "usable": None, "checks": None}, "wrr-", 1),
    ],
)
def test_the_marks_of_a_sample(changes: dict[str, Any], code: str, wrong: int) -> None:
    assert code_of(RIGHT | changes) == code
    assert harm_of(RIGHT | changes) == (code[3] == "w" or code == "wrr-", 0.0, wrong)


def test_the_worst_over_all_runs_comes_first_and_equals_keep_their_order() -> None:
    bad = RIGHT | {"clean": False, "geometry_right": False}
    assert worst_first([[RIGHT, RIGHT], [bad, RIGHT], [RIGHT, None], [None, None]]) == [1, 0, 2, 3]
    unusable = RIGHT | {"usable": False, "clean": False}
    assert worst_first([[bad], [unusable], [unusable | {"lost_ang": 0.5}]]) == [2, 1, 0]
