"""What the LP did to the model, against runs whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from engine.inspection.effect import LEAST_P, RunEffect, effect_of_run, effect_of_sample
from engine.inspection.effect_words import number, percent, points, sentence_of
from engine.inspection.runs import runs_with_samples
from engine.inspection.statistics import Interval
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, step_row, write_run

RUNS = [run.run_id for run in runs_with_samples(DEMO_STORE)]
END = "<|endoftext|>"


def forced(sample: int, pos: int, p_raw: float | None, rank: int = 1, **more: Any) -> dict[str, Any]:
    return step_row(sample, pos, forced=True, p_raw=p_raw, rank_raw=rank, allowed_mass=p_raw, **more)


def free(sample: int, pos: int, removed: float | None, rule: str = "anything", **more: Any) -> dict[str, Any]:
    mass = None if removed is None else 1 - removed
    return step_row(sample, pos, p_raw=0.5, allowed_mass=mass, rule=rule, role="FREE", **more)


def effect(store: Store, steps: Iterable[dict[str, Any]], **of_samples: list[Any]) -> RunEffect:
    """Of a run with these steps; ``of_samples`` gives columns of ``samples`` by sample."""
    rows = list(steps)
    count = max((row["sample_id"] for row in rows), default=0) + 1
    told = [{name: values[n] for name, values in of_samples.items()} for n in range(count)]
    write_run(store, "one", [sample_row(n, **told[n]) for n in range(count)], steps=rows, lp="position-blocklist")
    return effect_of_run(store, "one")


def two_samples() -> list[dict[str, Any]]:
    """Ten tokens each: 1 of 4 forced ones overruled, at closing; half the mass taken at 1 of 2 rules."""
    rows = []
    for sample in (0, 1):
        rows += [forced(sample, 0, 1.0, piece="[C]"), forced(sample, 1, 0.5, piece="<")]
        rows += [free(sample, pos, 0.0) for pos in (2, 3, 4, 5)]
        rows += [free(sample, pos, 0.5, rule="last positions") for pos in (6, 7)]
        rows += [forced(sample, 8, 0.125, rank=7, piece=">"), forced(sample, 9, 1.0, piece=END)]
    return rows


def test_a_sample_by_hand() -> None:
    rows = {row["pos"]: row for row in two_samples() if row["sample_id"] == 0}
    found = effect_of_sample(rows, rmsd_ang=0.7)
    assert [(one.pos, one.p_raw, one.rank) for one in found.forced] == [
        (0, 1.0, 1),
        (1, 0.5, 1),
        (8, 0.125, 7),
        (9, 1.0, 1),
    ]
    assert [(one.pos, one.removed) for one in found.free] == [(2, 0), (3, 0), (4, 0), (5, 0), (6, 0.5), (7, 0.5)]
    assert found.first_choice == 0.75
    assert found.p_forced == pytest.approx((0.5 * 0.125) ** (1 / 4))
    assert found.removed == pytest.approx(1 / 6)
    assert found.rmsd_ang == 0.7


def test_a_sample_without_steps_and_one_that_says_nothing() -> None:
    for rows in ([], [forced(0, 0, None), free(0, 1, None)]):
        found = effect_of_sample(rows)
        assert (found.forced, found.free) == ((), ())
        assert (found.first_choice, found.p_forced, found.removed) == (None, None, None)


def test_rows_in_any_order_and_rounding_below_zero() -> None:
    found = effect_of_sample([free(0, 3, -1e-9), forced(0, 1, 0.0), free(0, 0, 0.25)])
    assert [one.pos for one in found.free] == [0, 3]
    assert [one.removed for one in found.free] == [0.25, 0.0]
    assert found.p_forced == pytest.approx(LEAST_P)


def test_a_run_by_hand(store: Store) -> None:
    found = effect(store, two_samples())
    assert (found.samples, found.forced, found.free) == (2, 8, 12)
    assert found.first_choice is not None and found.first_choice.value == 0.75
    assert found.p_forced is not None and found.p_forced.value == pytest.approx((0.5 * 0.125) ** (1 / 4))
    assert found.removed is not None and found.removed.value == pytest.approx(1 / 6)
    # Both samples are alike, so drawing them anew changes nothing but the share, which is as wide as Wilson's.
    assert found.removed.low == found.removed.high == pytest.approx(1 / 6)
    assert found.first_choice.low == pytest.approx(0.409, abs=1e-3)


def test_places_stand_by_what_they_cost(store: Store) -> None:
    found = effect(store, two_samples())
    assert [(one.name, one.tokens, one.first_choice.value) for one in found.forced_places] == [
        ("closing a block", 2, 0.0),
        ("between the blocks", 2, 1.0),
        ("opening a block", 2, 1.0),
        ("the end", 2, 1.0),
    ]
    assert found.forced_places[0].p_forced.value == pytest.approx(0.125)
    assert [(one.name, one.tokens, one.removed.value) for one in found.free_places] == [
        ("last positions", 4, 0.5),
        ("anything", 8, 0.0),
    ]


def test_tenths_and_trends_run_along_the_answer(store: Store) -> None:
    found = effect(store, two_samples())
    surprise = [None if one.surprise_nat is None else one.surprise_nat.value for one in found.tenths]
    assert surprise == pytest.approx([0.0, math.log(2), *[None] * 6, math.log(8), 0.0])
    assert [one.free for one in found.tenths] == [0, 0, 2, 2, 2, 2, 2, 2, 0, 0]
    assert found.removed_trend is not None and found.removed_trend.value == pytest.approx(1 / 3)
    assert found.surprise_trend is not None
    assert found.surprise_trend.value == pytest.approx((math.log(8) - math.log(2)) / 2)


def test_answers_of_any_length_have_ten_tenths(store: Store) -> None:
    found = effect(store, [forced(0, 0, 0.5), *[forced(1, pos, 0.5) for pos in range(37)]])
    assert [one.forced for one in found.tenths] == [5, 4, 4, 3, 4, 4, 3, 4, 4, 3]


def against_rmsd(store: Store, rmsd: list[float | None], **columns: list[Any]) -> RunEffect:
    """Sample n is forced n times as hard as the first."""
    steps = [row for n in range(len(rmsd)) for row in (forced(n, 0, math.exp(-n), rank=n + 1), free(n, 1, n / 100))]
    return effect(store, steps, rmsd_ang=rmsd, **columns)


def test_rmsd_that_rises_with_forcing(store: Store) -> None:
    found = against_rmsd(store, [0.1 * n for n in range(12)])
    assert found.rmsd_surprise is not None and found.rmsd_surprise.plain.value == pytest.approx(1)
    assert found.rmsd_removed is not None and found.rmsd_removed.plain.value == pytest.approx(1)
    assert found.rmsd_surprise.adjusted is None  # nobody said how large the molecules are
    assert "farther off where the LP bends the model more" in found.sentence


def test_rmsd_that_falls_with_forcing(store: Store) -> None:
    found = against_rmsd(store, [2 - 0.1 * n for n in range(12)])
    assert found.rmsd_surprise is not None and found.rmsd_surprise.plain.value == pytest.approx(-1)
    assert "not farther off" in found.sentence


def test_size_may_explain_it(store: Store) -> None:
    """Forcing and RMSD both follow the molecule's size, each with noise of its own."""
    sizes = [4 * (n // 4) + 4 for n in range(24)]
    rmsd = [0.1 * (n // 4) + 0.01 * (0, 3, 1, 2)[n % 4] for n in range(24)]
    found = against_rmsd(store, list(rmsd), heavy_atoms=sizes)
    assert found.rmsd_surprise is not None and found.rmsd_surprise.plain.excludes_zero
    assert found.rmsd_surprise.adjusted is not None and not found.rmsd_surprise.adjusted.excludes_zero
    assert "sizes may explain" in found.sentence


def test_few_samples_with_rmsd_tell_nothing(store: Store) -> None:
    found = against_rmsd(store, [0.5, 0.6, None, None, None, None, None, None, None, None])
    assert found.rmsd_surprise is None and found.rmsd_samples == 2
    assert "RMSD is known of 2 samples: too few" in found.sentence
    assert [point.rmsd_ang for point in found.points[:3]] == [0.5, 0.6, None]


def test_points_are_the_samples(store: Store) -> None:
    found = against_rmsd(store, [0.5, None], heavy_atoms=[7, None])
    told = [(one.sample_id, one.forced, one.free, one.heavy_atoms) for one in found.points]
    assert told == [(0, 1, 1, 7), (1, 1, 1, None)]
    assert [one.surprise_nat for one in found.points] == pytest.approx([0, 1])
    assert [one.removed for one in found.points] == pytest.approx([0, 0.01])


# --- what is said -------------------------------------------------------------------------------------------------


def test_a_run_without_steps_says_so(store: Store) -> None:
    found = effect(store, [])
    assert found.samples == 0 and found.first_choice is None and len(found.tenths) == 10
    assert found.sentence == "What the LP did to the model cannot be told: this run kept no steps."


def test_steps_that_say_nothing_are_said_to(store: Store) -> None:
    found = effect(store, [forced(0, 0, None), free(0, 1, None)])
    assert found.sentence.endswith("the steps that it kept do not say what the model thought.")


def test_one_sample_has_no_uncertainty_to_tell(store: Store) -> None:
    found = effect(store, [row for row in two_samples() if row["sample_id"] == 0])
    assert found.first_choice == Interval(0.75)
    assert "This is one sample" in found.sentence and "[" not in found.sentence


def test_overruled_choices_are_placed(store: Store) -> None:
    answers = ([*(forced(n, pos, 0.9) for pos in range(8)), forced(n, 8, 0.01, 9, piece=">")] for n in range(30))
    steps = [row for rows in answers for row in rows]
    found = effect(store, steps)
    assert "does push the model off its own choice where a block is closed (all 30 overruled choices)" in found.sentence
    assert "more so in the second half" in found.sentence


def test_forcing_that_agrees_is_said_to(store: Store) -> None:
    found = effect(store, [forced(n, pos, 0.999) for n in range(40) for pos in range(20)])
    assert "hardly ever wrote what the model would not have chosen" in found.sentence
    assert "No token was free." in found.sentence


def test_too_few_tokens_leave_it_open(store: Store) -> None:
    found = effect(store, [forced(n, pos, 0.9) for n in range(2) for pos in range(5)])
    assert "is open." in found.sentence


def test_no_lp_forces_and_takes_nothing() -> None:
    found = effect_of_run(DEMO_STORE, demo_run("qwen", "none"))
    assert found.sentence == (
        "No token was forced. At 4,730 free tokens the LP took nothing of the model's mass."
        " Brackets: 95 % intervals over 16 samples."
    )


@pytest.mark.parametrize("run_id", RUNS)
def test_the_demo_agrees_with_its_steps(run_id: str) -> None:
    found = effect_of_run(DEMO_STORE, run_id)
    (told,) = DEMO_STORE.rows(
        """SELECT count(DISTINCT sample_id) AS samples, count_if(forced)::INT AS forced,
            count_if(NOT forced)::INT AS free, count_if(forced AND rank_raw = 1)::INT AS first,
            avg(1 - allowed_mass) FILTER (NOT forced) AS removed
        FROM steps WHERE run_id = $1""",
        [run_id],
    )
    assert (found.samples, found.forced, found.free) == (told["samples"], told["forced"], told["free"])
    assert found.removed is not None and found.removed.value == pytest.approx(told["removed"], abs=1e-6)
    if told["forced"]:
        assert found.first_choice is not None
        assert found.first_choice.value == pytest.approx(told["first"] / told["forced"])
    assert sum(one.tokens for one in found.forced_places) == sum(one.forced for one in found.tenths) == found.forced
    assert sum(one.tokens for one in found.free_places) == sum(one.free for one in found.tenths) == found.free
    assert sentence_of(found) == found.sentence


def test_forcing_by_position_is_told_from_the_exact_lp() -> None:
    """The question that the reports left open, on the runs that ship."""
    for model in ("qwen", "llama"):
        blocklist = effect_of_run(DEMO_STORE, demo_run(model, "blocklist"))
        assert blocklist.forced_places[0].name == "closing a block"
        assert "does push the model off its own choice where a block is closed" in blocklist.sentence
        assert "hardly ever" in effect_of_run(DEMO_STORE, demo_run(model, "exact")).sentence


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (percent(Interval(0.971, 0.96, 0.98)), "97.1 % [96.0, 98.0]"),
        (percent(Interval(1.0)), "100.0 %"),
        (points(Interval(0.004, -0.001, 0.009)), "+0.4 points [-0.1, 0.9]"),
        (points(Interval(-0.0001, -0.01, 0.01)), "0.0 points [-1.0, 1.0]"),
        (number(Interval(-0.001, -0.5, 0.5)), "0.00 [-0.50, 0.50]"),
    ],
)
def test_figures_are_written_with_their_interval(told: str, expected: str) -> None:
    assert told == expected
