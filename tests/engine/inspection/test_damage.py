"""Judged samples by the worst that their text has."""

from __future__ import annotations

import pytest

from engine.questions import ask
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
    answered = ask(store, "drift_damage", ["one"])
    rows = {(row["text"], row["what"].split()[0]): row for row in answered.tables["main"].to_pylist()}
    assert [(text, rows[text, "geometry"]["samples"]) for text, what in rows if what == "geometry"] == [
        ("junk", 1), ("cut", 1), ("unverified", 1), ("clean", 2), ("other", 1),
    ]  # fmt: skip
    clean = rows["clean", "geometry"]
    assert clean["share"] == rows["clean", "stereo"]["share"] == 0.5
    assert (clean["low"], clean["high"]) == pytest.approx((0.0945, 0.9055), abs=1e-3)
    assert {text: row["judged"] for (text, what), row in rows.items() if what == "stereo"} == {
        "junk": 0, "cut": 0, "unverified": 0, "clean": 2, "other": 0,
    }  # fmt: skip
    assert "Text clean: geometry right in 50.0 %" in answered.answer


def test_without_verdicts_there_is_nothing_to_say(store: Store) -> None:
    write_run(store, "one", [sample_row(0)])
    assert ask(store, "drift_damage", ["one"]).tables["main"].num_rows == 0
