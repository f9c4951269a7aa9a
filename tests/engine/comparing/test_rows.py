"""The rows of `compare`: a control and its tests with ratios, and what is not known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from engine.comparing.figures import ROW_COLUMNS, ROW_RATIOS, compare_rows
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from engine.store.schema import RUNS
from tests.engine.inspection.made import DEMO_STORE


def entry(**row: Any) -> Entry:
    return Entry(str(row.get("run_id", "one")), "", LocalFiles(Path()), 1, {"origin": "measured"} | row, {}, {})


def test_a_ratio_is_test_over_control() -> None:
    """The figures of a report: 57.0 s beside 115.5 s, and so on."""
    control = entry(run_id="none", samples=64, passes=32, wall_s=100.0, decode_s=70.0, tokens=4000, forward_passes=400)
    test = entry(run_id="exact", samples=64, passes=64, wall_s=50.0, decode_s=20.0, tokens=2000, forward_passes=100)
    first, second = compare_rows(DEMO_STORE, control, [test])
    assert (first["part"], first["run_id"], second["part"], second["run_id"]) == ("control", "none", "test", "exact")
    assert {name: first[f"{name}_ratio"] for name in ROW_RATIOS} == dict.fromkeys(ROW_RATIOS, 1.0)
    assert {name: second[f"{name}_ratio"] for name in ROW_RATIOS} == {
        "wall_s": 0.5,
        "tokens": 0.5,
        "ms_a_token": 1.0,
        "forward_passes": 0.25,
        "pass_rate": 2.0,
        "wall_s_a_sample": 0.5,
    }
    assert (first["pass_rate"], first["ms_a_token"], first["wall_s_a_sample"]) == (0.5, 25.0, 100 / 64)
    assert (second["pass_rate_low"], second["pass_rate_high"]) == (pytest.approx(0.9434, abs=1e-4), 1.0)


def test_many_tests_stand_in_the_order_in_which_they_were_given() -> None:
    rows = compare_rows(DEMO_STORE, entry(run_id="c"), [entry(run_id=name) for name in "bad"])
    assert [row["run_id"] for row in rows] == ["c", "b", "a", "d"]
    assert len({tuple(row) for row in rows}) == 1, "all with the same columns"


def test_what_is_not_known_stays_null() -> None:
    """A reported run has seconds and blocks, and neither passes nor tokens."""
    reported = entry(run_id="r", origin="reported", samples=64, wall_s=57.0, blocks=1619, junk_letters=0)
    control, test = compare_rows(
        DEMO_STORE, reported, [entry(run_id="m", samples=64, passes=60, wall_s=19.0, tokens=100)]
    )
    assert control["tokens"] is control["pass_rate"] is control["pass_rate_low"] is control["ms_a_token"] is None
    assert (control["blocks"], control["junk_letters"]) == (1619, 0)
    assert test["wall_s_ratio"] == pytest.approx(1 / 3)
    assert test["tokens_ratio"] is test["pass_rate_ratio"] is test["ms_a_token_ratio"] is None
    assert test["pass_rate"] == pytest.approx(60 / 64)
    assert all(compare_rows(DEMO_STORE, entry(), [entry()])[1][name] is None for name in ROW_COLUMNS[9:])


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
    for control in (row, {"wall_s": 1.0, "tokens": 1}):
        for one in compare_rows(DEMO_STORE, entry(**control), [entry(**row)]):
            assert all(math.isfinite(value) for value in one.values() if isinstance(value, float))
            assert one["pass_rate_low"] is None or 0 <= one["pass_rate_low"] <= one["pass_rate_high"] <= 1


def test_the_rows_columns_are_columns_of_runs() -> None:
    assert set(ROW_COLUMNS) <= set(RUNS.names)
