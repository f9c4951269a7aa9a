"""Ratios of times as products, and wall time as a sum: the reports' own figures, and what does not add up."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.comparing.slowdown import PARTS, slowdown, time_budget
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from tests.engine.inspection.made import DEMO_STORE, demo_run

ROWS = st.fixed_dictionaries(
    dict.fromkeys(("wall_s", "samples", "tokens", "forward_passes"), st.floats(1e-3, 1e6)),
)


def entry(**row: Any) -> Entry:
    return Entry("one", "one", LocalFiles(Path()), 1, {"origin": "measured", **row}, {}, {})


def test_the_reports_slowdown() -> None:
    llama, qwen = (DEMO_STORE.entry(f"reported-002-{name}-lp-64") for name in ("llama", "qwen"))
    found = slowdown(llama, qwen).by_tokens
    assert found.total is not None and found.reason == ""
    assert [round(factor.ratio, 2) for factor in found.factors] == [1.34, 2.62]
    assert round(found.total.ratio, 2) == 3.51
    assert math.prod(factor.ratio for factor in found.factors) == pytest.approx(found.total.ratio, rel=1e-14)
    assert sum(found.share(factor) or 0 for factor in found.factors) == pytest.approx(1)
    assert [round(factor.test, 6) for factor in found.factors] == [round(38_195 / 64, 6), round(115.46 / 38_195, 6)]


def test_what_a_report_does_not_say_is_named() -> None:
    llama, qwen = (DEMO_STORE.entry(f"reported-002-{name}-lp-64") for name in ("llama", "qwen"))
    found = slowdown(llama, qwen).by_passes
    assert (found.total, found.factors) == (None, ())
    assert found.reason == "Not known: forward_passes of the control, forward_passes of the test."


@given(ROWS, ROWS)
def test_factors_multiply_to_the_whole(control: dict[str, float], test: dict[str, float]) -> None:
    found = slowdown(entry(**control), entry(**test))
    for one in (found.by_tokens, found.by_passes, found.by_both):
        assert one.total is not None
        assert math.prod(factor.ratio for factor in one.factors) == pytest.approx(one.total.ratio, rel=1e-12)


def test_runs_of_another_size_are_taken_a_sample() -> None:
    row = {"wall_s": 10.0, "samples": 5, "tokens": 100, "forward_passes": 20}
    found = slowdown(entry(**row), entry(**{name: 3 * value for name, value in row.items()}))
    assert found.by_both.total is not None and found.by_both.total.ratio == pytest.approx(1)
    assert [factor.ratio for factor in found.by_both.factors] == [pytest.approx(1)] * 3
    assert found.by_both.share(found.by_both.factors[0]) is None  # there is no slowdown to share out


def test_a_run_of_the_demo_adds_up() -> None:
    run = DEMO_STORE.entry(demo_run("qwen", "exact"))
    found = time_budget(run)
    assert [part.name for part in found.parts] == list(PARTS) and found.is_whole and found.sentence == ""
    assert found.unexplained_s is not None and found.unexplained_s > 0
    assert sum(part.seconds for part in found.parts) + found.unexplained_s == pytest.approx(run.row["wall_s"])
    assert found.judging_s == run.row["judging_s"]
    assert found.parts[2].share == pytest.approx(run.row["forward_s"] / run.row["wall_s"])


def test_estimates_of_a_report_are_no_counters() -> None:
    found = time_budget(DEMO_STORE.entry("reported-002-qwen-lp-64"))
    assert (found.wall_s, found.parts, found.unexplained_s, found.unknown) == (115.46, (), None, PARTS)
    assert found.sentence == "No part of the time was counted." and not found.is_whole


@pytest.mark.parametrize(
    ("row", "rest", "excess", "said"),
    [
        ({"wall_s": 10.0, "forward_s": 8.0}, 2.0, 0.0, "The rest includes what was not counted"),
        ({"wall_s": 10.0, "forward_s": 12.5}, 0.0, 2.5, "The parts exceed the wall time by 2.50 s"),
        ({"wall_s": 10.0, "forward_s": 10.004}, 0.0, 0.0, "The rest includes what was not counted"),
        ({"forward_s": 8.0}, None, 0.0, "The whole time is not known"),
        ({"wall_s": 10.0, **dict.fromkeys(PARTS, 1.0)}, 5.0, 0.0, ""),
    ],
)
def test_the_rest_is_computed(row: dict[str, float], rest: float | None, excess: float, said: str) -> None:
    found = time_budget(entry(**row))
    assert (found.unexplained_s, found.excess_s) == (rest, excess)
    assert found.sentence.startswith(said) and bool(found.sentence) == bool(said)
    assert found.is_whole == (not said)
