"""Whether the LP overruled the model, against runs whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from engine.questions import ask, drift_lp
from engine.questions.question import Answered, NeedsWork
from engine.store.store import Store
from tests.engine.inspection.made import sample_row, step_row, write_run

END = "<|endoftext|>"


def forced(sample: int, pos: int, p_raw: float | None, rank: int = 1, **more: Any) -> dict[str, Any]:
    return step_row(sample, pos, forced=True, p_raw=p_raw, rank_raw=rank, allowed_mass=p_raw, **more)


def free(sample: int, pos: int, removed: float, rule: str = "anything") -> dict[str, Any]:
    return step_row(sample, pos, p_raw=0.5, allowed_mass=1 - removed, rule=rule, role="FREE")


def answer_of(store: Store, steps: Iterable[dict[str, Any]], **of_samples: list[Any]) -> Answered:
    """Of a run with these steps; ``of_samples`` gives columns of ``samples`` by sample."""
    rows = list(steps)
    count = max((row["sample_id"] for row in rows), default=0) + 1
    columns = [{name: values[n] for name, values in of_samples.items()} for n in range(count)]
    write_run(store, "one", [sample_row(n, **columns[n]) for n in range(count)], steps=rows, lp="group-v2.1")
    return ask(store, "drift_lp", ["one"])


def overall(answer: Answered) -> dict[str, Any]:
    (row,) = answer.tables["overall"].to_pylist()
    return row


def two_samples() -> list[dict[str, Any]]:
    """Ten tokens each: 1 of 4 forced ones overruled, at closing; half the mass taken at 1 of 2 rules."""
    rows = []
    for sample in (0, 1):
        rows += [forced(sample, 0, 1.0, piece="[C]"), forced(sample, 1, 0.5, piece="<")]
        rows += [free(sample, pos, 0.0) for pos in (2, 3, 4, 5)]
        rows += [free(sample, pos, 0.5, rule="last positions") for pos in (6, 7)]
        rows += [forced(sample, 8, 0.125, rank=7, piece=">"), forced(sample, 9, 1.0, piece=END)]
    return rows


def test_a_run_by_hand(store: Store) -> None:
    answer = answer_of(store, two_samples())
    row = overall(answer)
    assert (row["samples"], row["forced"], row["free"], row["own_choice"]) == (2, 8, 12, 0.75)
    assert row["p_forced"] == pytest.approx((0.5 * 0.125) ** (1 / 4))
    # Both samples are alike, so drawing them anew changes nothing but the share, which is as wide as Wilson's.
    assert [row["removed"], row["removed_low"], row["removed_high"]] == pytest.approx([1 / 6] * 3)
    assert row["own_choice_low"] == pytest.approx(0.409, abs=1e-3)
    assert answer.answer.startswith(
        "The LP wrote 40.0 % of the tokens itself. 75.0 % (40.9–92.9) of these were the model's own first choice; the "
        "others changed what it writes, mostly at “closing a block” (2 of 2 tokens). At 12 free tokens it ruled out "
    )
    groups = answer.tables["main"].to_pylist()
    assert [(p["kind"], p["where"], p["forced"] + p["free"]) for p in groups] == [
        ("forced", "closing a block", 2),
        ("forced", "inside a descriptor", 2),
        ("forced", "opening a block", 2),
        ("forced", "the end", 2),
        ("free", "last positions", 4),
        ("free", "anything", 8),
    ]
    assert (groups[0]["own_choice"], groups[4]["removed"]) == (0.0, 0.5)


def test_tenths_and_trends_run_along_the_answer(store: Store) -> None:
    answer = answer_of(store, two_samples())
    tenths = answer.tables["along"].to_pylist()
    expected = [0.0, math.log(2), *[None] * 6, math.log(8), 0.0]
    assert [tenth["surprise"] for tenth in tenths] == pytest.approx(expected)
    assert [tenth["free"] for tenth in tenths] == [0, 0, 2, 2, 2, 2, 2, 2, 0, 0]
    assert overall(answer)["removed_trend"] == pytest.approx(1 / 3)
    assert overall(answer)["surprise_trend"] == pytest.approx((math.log(8) - math.log(2)) / 2)


@pytest.mark.parametrize(
    ("rmsd", "rho"),
    [
        ([0.1 * n for n in range(12)], 1),
        ([2 - 0.1 * n for n in range(12)], -1),
        ([0.1 * n for n in range(7)], None),  # of too few
    ],
)
def test_rmsd_against_forcing(store: Store, rmsd: list[float], rho: float | None) -> None:
    """Sample n is forced n times as hard as the first."""
    steps = [row for n in range(len(rmsd)) for row in (forced(n, 0, math.exp(-n), rank=n + 1), free(n, 1, n / 100))]
    totals = overall(answer_of(store, steps, rmsd_ang=rmsd, heavy_atoms=[None] * len(rmsd)))
    assert totals.get("rmsd_surprise") == (rho and pytest.approx(rho))


def test_a_run_without_steps_needs_work(store: Store) -> None:
    with pytest.raises(NeedsWork) as caught:
        answer_of(store, [])
    assert caught.value.commands == (["cost-of-lp", "one"],)


def test_a_chart_without_a_value_along_an_axis_is_left_out(store: Store) -> None:
    """Without an LP no token is forced."""
    tables = answer_of(store, [free(0, pos, 0.1) for pos in range(4)]).tables
    assert [chart.is_empty(tables[chart.table]) for chart in drift_lp.CHARTS][:2] == [True, False]
    assert drift_lp.CHARTS[0].is_empty(None)
