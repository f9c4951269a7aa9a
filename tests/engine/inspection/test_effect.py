"""What the LP did to the model, against runs whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from engine.figures.statistics import Interval
from engine.inspection.effect import RunEffect, effect_of_run
from engine.inspection.effect_words import plain_words, sentence_of
from engine.inspection.runs import run_facts, runs_with_samples
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
    write_run(store, "one", [sample_row(n, **told[n]) for n in range(count)], steps=rows, lp="group-v2.1")
    return effect_of_run(store, run_facts(store, "one"))


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
    assert [
        (forced_place.name, forced_place.tokens, forced_place.first_choice.value)
        for forced_place in found.forced_places
    ] == [
        ("closing a block", 2, 0.0),
        ("inside a descriptor", 2, 1.0),
        ("opening a block", 2, 1.0),
        ("the end", 2, 1.0),
    ]
    assert found.forced_places[0].p_forced.value == pytest.approx(0.125)
    assert [(free_place.name, free_place.tokens, free_place.removed.value) for free_place in found.free_places] == [
        ("last positions", 4, 0.5),
        ("anything", 8, 0.0),
    ]


def test_tenths_and_trends_run_along_the_answer(store: Store) -> None:
    found = effect(store, two_samples())
    surprise = [None if tenth.surprise_nat is None else tenth.surprise_nat.value for tenth in found.tenths]
    assert surprise == pytest.approx([0.0, math.log(2), *[None] * 6, math.log(8), 0.0])
    assert [tenth.free for tenth in found.tenths] == [0, 0, 2, 2, 2, 2, 2, 2, 0, 0]
    assert found.removed_trend is not None and found.removed_trend.value == pytest.approx(1 / 3)
    assert found.surprise_trend is not None
    assert found.surprise_trend.value == pytest.approx((math.log(8) - math.log(2)) / 2)


def test_answers_of_any_length_have_ten_tenths(store: Store) -> None:
    found = effect(store, [forced(0, 0, 0.5), *[forced(1, pos, 0.5) for pos in range(37)]])
    assert [tenth.forced for tenth in found.tenths] == [5, 4, 4, 3, 4, 4, 3, 4, 4, 3]


def against_rmsd(store: Store, rmsd: list[float | None], **columns: list[Any]) -> RunEffect:
    """Sample n is forced n times as hard as the first."""
    steps = [row for n in range(len(rmsd)) for row in (forced(n, 0, math.exp(-n), rank=n + 1), free(n, 1, n / 100))]
    return effect(store, steps, rmsd_ang=rmsd, **columns)


def test_rmsd_that_rises_with_forcing(store: Store) -> None:
    found = against_rmsd(store, [0.1 * n for n in range(12)])
    assert found.rmsd_surprise is not None and found.rmsd_surprise.plain.value == pytest.approx(1)
    assert found.rmsd_removed is not None and found.rmsd_removed.plain.value == pytest.approx(1)
    assert found.rmsd_surprise.adjusted is None  # nobody said how large the molecules are
    assert "farther off where the LP overrules the model more" in sentence_of(found)


def test_rmsd_that_falls_with_forcing(store: Store) -> None:
    found = against_rmsd(store, [2 - 0.1 * n for n in range(12)])
    assert found.rmsd_surprise is not None and found.rmsd_surprise.plain.value == pytest.approx(-1)
    assert "not farther off" in sentence_of(found)


def test_size_may_explain_it(store: Store) -> None:
    """Forcing and RMSD both follow the molecule's size, each with noise of its own."""
    sizes = [4 * (n // 4) + 4 for n in range(24)]
    rmsd = [0.1 * (n // 4) + 0.01 * (0, 3, 1, 2)[n % 4] for n in range(24)]
    found = against_rmsd(store, list(rmsd), heavy_atoms=sizes)
    assert found.rmsd_surprise is not None and found.rmsd_surprise.plain.excludes_zero
    assert found.rmsd_surprise.adjusted is not None and not found.rmsd_surprise.adjusted.excludes_zero
    assert "size may explain" in sentence_of(found)


def test_few_samples_with_rmsd_tell_nothing(store: Store) -> None:
    found = against_rmsd(store, [0.5, 0.6, None, None, None, None, None, None, None, None])
    assert found.rmsd_surprise is None and found.rmsd_samples == 2
    assert "RMSD is known for 2 samples: too few" in sentence_of(found)
    assert [point.rmsd_ang for point in found.points[:3]] == [0.5, 0.6, None]


def test_points_are_the_samples(store: Store) -> None:
    found = against_rmsd(store, [0.5, None], heavy_atoms=[7, None])
    told = [(point.sample_id, point.forced, point.free, point.heavy_atoms) for point in found.points]
    assert told == [(0, 1, 1, 7), (1, 1, 1, None)]
    assert [point.surprise_nat for point in found.points] == pytest.approx([0, 1])
    assert [point.removed for point in found.points] == pytest.approx([0, 0.01])


# --- what is said -------------------------------------------------------------------------------------------------


def test_a_run_without_steps_says_so(store: Store) -> None:
    found = effect(store, [])
    assert found.samples == 0 and found.first_choice is None and len(found.tenths) == 10
    assert sentence_of(found) == "The effect of the LP is unknown: this run kept no steps."


def test_steps_that_say_nothing_are_said_to(store: Store) -> None:
    found = effect(store, [forced(0, 0, None), free(0, 1, None)])
    assert sentence_of(found).endswith("its steps have no probabilities.")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [forced(0, 0, 0.9), forced(0, 1, 0.1, 3), free(0, 2, 0.25), free(0, 3, 0.0)],
            "The LP wrote 50.0 % of the tokens itself. 50.0 % of these were the model's own choice. At the others it "
            "ruled out 12.5 % of what the model might have written.",
        ),
        ([forced(0, 0, 0.9)], "The LP wrote 100 % of the tokens itself. All of these were the model's own choice."),
        ([free(0, 0, 0.0)], "The LP wrote no token itself. It ruled out nothing."),
        ([free(0, 0, 1e-8)], "The LP wrote no token itself. It ruled out nothing."),  # of single precision
        ([free(0, 0, 3e-4)], "The LP wrote no token itself. It ruled out almost nothing (<0.1 %)."),
    ],
)
def test_the_first_words_need_no_term(store: Store, rows: list[dict[str, Any]], said: str) -> None:
    assert plain_words(effect(store, rows)) == said


def test_one_sample_has_no_uncertainty_to_tell(store: Store) -> None:
    found = effect(store, [row for row in two_samples() if row["sample_id"] == 0])
    assert found.first_choice == Interval(0.75)
    assert "from one sample" in sentence_of(found) and "[" not in sentence_of(found)


def test_overruled_choices_are_placed(store: Store) -> None:
    answers = ([*(forced(n, pos, 0.9) for pos in range(8)), forced(n, 8, 0.01, 9, piece=">")] for n in range(30))
    steps = [row for rows in answers for row in rows]
    found = effect(store, steps)
    assert "does overrule the model where a block is closed (all 30 overruled choices)" in sentence_of(found)
    assert "more so in the second half" in sentence_of(found)


def test_forcing_that_agrees_is_said_to(store: Store) -> None:
    found = effect(store, [forced(n, pos, 0.999) for n in range(40) for pos in range(20)])
    assert "hardly ever overruled the model" in sentence_of(found)
    assert "No token was free." in sentence_of(found)


def test_too_few_tokens_leave_it_open(store: Store) -> None:
    found = effect(store, [forced(n, pos, 0.9) for n in range(2) for pos in range(5)])
    assert "is open." in sentence_of(found)


def test_no_lp_forces_and_takes_nothing() -> None:
    found = effect_of_run(DEMO_STORE, run_facts(DEMO_STORE, demo_run("qwen", "none")))
    assert sentence_of(found) == (
        f"No token was forced. At {found.free:,} free tokens the LP removed none of the model's mass."
        " In brackets: 95 % intervals over 16 samples."
    )


@pytest.mark.parametrize("run_id", RUNS)
def test_the_demo_agrees_with_its_steps(run_id: str) -> None:
    found = effect_of_run(DEMO_STORE, run_facts(DEMO_STORE, run_id))
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
    assert (
        sum(forced_place.tokens for forced_place in found.forced_places)
        == sum(tenth.forced for tenth in found.tenths)
        == found.forced
    )
    assert (
        sum(free_place.tokens for free_place in found.free_places)
        == sum(tenth.free for tenth in found.tenths)
        == found.free
    )


def test_a_little_mass_is_not_said_to_be_none() -> None:
    """The page has the figure beside the sentence."""
    found = effect_of_run(DEMO_STORE, run_facts(DEMO_STORE, demo_run("qwen", "exact")))
    assert found.removed is not None and 0 < found.removed.value < 0.0005
    assert plain_words(found).endswith("ruled out almost nothing (<0.1 %).")
    assert "removed almost none (<0.1 %) of the model's mass" in sentence_of(found)


def test_forcing_by_position_is_told_from_the_exact_lp() -> None:
    """The question that the reports left open, on the runs that ship."""
    for model in ("qwen", "llama"):
        blocklist = effect_of_run(DEMO_STORE, run_facts(DEMO_STORE, demo_run(model, "group-v2.1")))
        assert blocklist.forced_places[0].name == "closing a block"
        assert "does overrule the model where a block is closed" in sentence_of(blocklist)
        assert "hardly ever" in sentence_of(effect_of_run(DEMO_STORE, run_facts(DEMO_STORE, demo_run(model, "exact"))))
