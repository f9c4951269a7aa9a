"""Runs beside a control: intervals, ratios, and what is not known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.store.comparison import FIGURES, RATIOS, compare, wilson
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from engine.store.schema import RUNS

KNOWN = [  # exact to the digits that are given, by Wilson's formula with z = 1.959964
    (0, 10, 0.0, 0.2775),
    (1, 10, 0.0179, 0.4042),
    (5, 10, 0.2366, 0.7634),
    (10, 10, 0.7225, 1.0),
    (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
    (15, 148, 0.0624, 0.1605),
    (0, 20, 0.0, 0.1611),
    (1, 29, 0.0061, 0.1718),
    (64, 64, 0.9434, 1.0),
]


def entry(**row: Any) -> Entry:
    return Entry(str(row.get("run_id", "one")), "", LocalFiles(Path()), 1, row, {}, {})


@pytest.mark.parametrize(("passes", "samples", "low", "high"), KNOWN)
def test_intervals_that_are_known(passes: int, samples: int, low: float, high: float) -> None:
    assert wilson(passes, samples) == pytest.approx((low, high), abs=6e-5)


def test_without_a_sample_any_rate_is_possible() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 10**9).flatmap(lambda samples: st.tuples(st.integers(0, samples), st.just(samples))))
def test_an_interval_solves_its_equation(counts: tuple[int, int]) -> None:
    """Its ends are the rates from which what was seen is just z standard deviations away."""
    passes, samples = counts
    rate = passes / samples
    low, high = wilson(passes, samples)
    assert 0 <= low <= rate + 1e-12 and rate - 1e-12 <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            away = abs(rate - end) / math.sqrt(end * (1 - end) / samples)
            assert away == pytest.approx(1.959964, rel=1e-3) or end == pytest.approx(rate, abs=1e-9)
    assert wilson(samples - passes, samples) == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_a_ratio_is_test_over_control() -> None:
    """The figures of a report: 57.0 s beside 115.5 s, and so on."""
    control = entry(run_id="none", samples=64, passes=32, wall_s=100.0, decode_s=80.0, tokens=4000, forward_passes=400)
    test = entry(run_id="exact", samples=64, passes=64, wall_s=50.0, decode_s=20.0, tokens=2000, forward_passes=100)
    first, second = compare(control, [test])
    assert (first["part"], first["run_id"], second["part"], second["run_id"]) == ("control", "none", "test", "exact")
    assert {name: first[f"{name}_ratio"] for name in RATIOS} == dict.fromkeys(RATIOS, 1.0)
    assert {name: second[f"{name}_ratio"] for name in RATIOS} == {
        "wall_s": 0.5,
        "tokens": 0.5,
        "ms_a_token": 0.5,
        "forward_passes": 0.25,
        "pass_rate": 2.0,
        "wall_s_a_sample": 0.5,
    }
    assert (first["pass_rate"], first["ms_a_token"], first["wall_s_a_sample"]) == (0.5, 20.0, 100 / 64)
    assert (second["pass_rate_low"], second["pass_rate_high"]) == (pytest.approx(0.9434, abs=1e-4), 1.0)


def test_many_tests_stand_in_the_order_in_which_they_were_given() -> None:
    rows = compare(entry(run_id="c"), [entry(run_id=name) for name in "bad"])
    assert [row["run_id"] for row in rows] == ["c", "b", "a", "d"]
    assert len({tuple(row) for row in rows}) == 1, "all with the same columns"


def test_what_is_not_known_stays_null() -> None:
    """A reported run has seconds and blocks, and neither passes nor tokens."""
    reported = entry(run_id="r", origin="reported", samples=64, wall_s=57.0, blocks=1619, junk_letters=0)
    control, test = compare(reported, [entry(run_id="m", samples=64, passes=60, wall_s=19.0, tokens=100)])
    assert control["tokens"] is control["pass_rate"] is control["pass_rate_low"] is control["ms_a_token"] is None
    assert (control["blocks"], control["junk_letters"]) == (1619, 0)
    assert test["wall_s_ratio"] == pytest.approx(1 / 3)
    assert test["tokens_ratio"] is test["pass_rate_ratio"] is test["ms_a_token_ratio"] is None
    assert test["pass_rate"] == pytest.approx(60 / 64)
    assert all(compare(entry(), [entry()])[1][name] is None for name in FIGURES)


@pytest.mark.parametrize(
    "row",
    [
        {"samples": 0, "passes": 0, "wall_s": 0.0, "tokens": 0},
        {"samples": 5, "passes": 9, "wall_s": 1e308, "tokens": 1, "decode_s": 1e308},
        {"samples": -5, "passes": -9, "wall_s": 5e-324, "tokens": 2**63 - 1},
    ],
)
def test_figures_that_cannot_be_are_no_error(row: dict[str, Any]) -> None:
    """A foreign sheet may say what it likes; nothing that comes out is no number."""
    for rows in (compare(entry(**row), [entry(**row)]), compare(entry(wall_s=1.0, tokens=1), [entry(**row)])):
        for one in rows:
            assert all(math.isfinite(value) for value in one.values() if isinstance(value, float))
            assert one["pass_rate_low"] is None or 0 <= one["pass_rate_low"] <= one["pass_rate_high"] <= 1


def test_seconds_of_a_token_are_those_of_decoding_where_they_are_known() -> None:
    rows = compare(entry(wall_s=10.0, tokens=1000), [entry(wall_s=10.0, decode_s=5.0, tokens=1000)])
    assert [row["ms_a_token"] for row in rows] == [10.0, 5.0]


def test_the_figures_are_columns_of_runs() -> None:
    assert set(FIGURES) <= set(RUNS.names)
