"""Judged samples by the worst that their text has."""

from __future__ import annotations

import pytest

from engine.inspection.damage import damage
from engine.store.store import Store
from tests.engine.inspection.made import block_row, sample_row, write_run


def judged(number: int, right: bool, stereo: bool | None = None, **more: object) -> dict[str, object]:
    return sample_row(number, usable=right, geometry_right=right, stereo_right=stereo, **more)


def test_a_sample_counts_once_under_the_worst_of_its_text(store: Store) -> None:
    samples = [
        judged(0, True, True),
        judged(1, False, False),
        judged(2, True, clean=False),
        judged(3, False, clean=False),
        judged(4, True),
        judged(5, True, clean=False),
        sample_row(6),
    ]
    blocks = [
        block_row(2, 0, kinds=["letters", "cut"], junk_text="x"),
        block_row(3, 0, kinds=["cut"]),
        block_row(3, 1, kinds=["unverified"]),
        block_row(4, 0, kinds=["unverified"]),
    ]
    write_run(store, "one", samples, blocks)
    found = {row.text: row for row in damage(store, ["one"])}
    assert list(found) == ["junk", "cut", "unverified", "clean", "other"]
    assert {text: row.samples for text, row in found.items()} == {
        "junk": 1, "cut": 1, "unverified": 1, "clean": 2, "other": 1,
    }  # fmt: skip
    clean = found["clean"]
    assert clean.geometry_right is not None and clean.stereo_right is not None
    assert (clean.geometry_right.value, clean.stereo_right.value) == (0.5, 0.5)
    assert clean.geometry_right.ends == pytest.approx((0.0945, 0.9055), abs=1e-3)
    assert found["junk"].stereo_right is None
    judged_of = {text: (row.stereo_judged, row.geometry_judged) for text, row in found.items()}
    assert judged_of == {"junk": (0, 1), "cut": (0, 1), "unverified": (0, 1), "clean": (2, 2), "other": (0, 1)}


def test_without_verdicts_there_is_nothing_to_say(store: Store) -> None:
    write_run(store, "one", [sample_row(0)])
    assert damage(store, ["one"]) == []
