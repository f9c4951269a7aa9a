"""Charts over steps, and what is wrong with a reward: planted faults are each named, and sound rewards are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RunError
from engine.questions import ask, question_of
from engine.questions.question import NeedsWork
from engine.store.schema import ROLLOUTS, RUN, SAMPLES
from engine.store.staging import write_whole
from engine.store.store import Store
from engine.text.blocks import RULES
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.questions.declared import assert_as_declared
from tests.engine.store.stored_runs import store_at

Answer = Mapping[str, Any]
"""Of a made answer: is_usable, is_hand_right, is_misread."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


def write_step(
    store: Store,
    step: int,
    rewards: Mapping[str, Callable[[Answer, random.Random], float | None]],
    *,
    usable: float = 0.5,
    near: float | None = 0.5,
    prompts: int = 30,
    is_judged: bool = True,
    verdict_of_all: Mapping[str, Any] | None = None,
    training: str = "made",
    **columns: Any,
) -> str:
    """A step with 8 answers for each prompt: every fourth with the wrong hand, every eighth misread, of the others a
    share usable."""
    draws = random.Random(step)
    samples, rollouts, run_id = [], [], f"{training}-{step}"
    for number in range(8 * prompts):
        answer = {"is_hand_right": number % 4 != 1, "is_misread": number % 8 == 2}
        is_sound = answer["is_hand_right"] and not answer["is_misread"]
        answer["is_usable"] = is_sound and draws.random() < usable
        verdict = {
            "clean": not answer["is_misread"],
            "stereo_right": answer["is_hand_right"],
            "geometry_right": True,
            "usable": answer["is_usable"],
            "failed": [],
        }
        if verdict_of_all is not None:
            verdict = {**dict.fromkeys(verdict), **verdict_of_all}
        row = sample_row(number, smiles="C" * (1 + number // 8), **(verdict if is_judged else {}))
        unread = {} if is_judged else {"passed": None, "clean": None, "decodes": None}
        samples.append({"run_id": run_id, **row, **unread})
        given = [{"name": name, "value": pay(answer, draws)} for name, pay in rewards.items()]
        misread = 5.0 if answer["is_misread"] and verdict_of_all is None else None
        about = {"run_id": run_id, "sample_id": number, "misread_ang": misread, "nearest_ang": near}
        rollouts.append({**about, "rewards": given, "advantage": 0.0})
    row = {
        "origin": "imported",
        "samples": len(samples),
        "training": training,
        "training_step": step,
        "lp": "none",
        **columns,
    }
    row |= {"counted_by": RULES, "judged": len(samples)} if is_judged else {}
    tables = {SAMPLES.name: SAMPLES.rows(samples), ROLLOUTS.name: ROLLOUTS.rows(rollouts)}
    return write_whole(store.home, RUN, run_id, row, tables).id


def sound(answer: Answer, draws: random.Random) -> float:
    return float(answer["is_usable"]) + draws.random()


def blind_to_misreading(answer: Answer, draws: random.Random) -> float:
    return float(answer["is_hand_right"]) + draws.random()


def for_a_wrong_hand(answer: Answer, draws: random.Random) -> float:
    return 0.5 * (not answer["is_hand_right"]) - 2.0 * answer["is_misread"] + draws.random()


def saturated(answer: Answer, draws: random.Random) -> float:
    return 1.0 - 0.01 * draws.random() if answer["is_hand_right"] or draws.random() < 0.8 else 0.1 * draws.random()


PLANTED: dict[str, tuple[Callable[[Answer, random.Random], float], str]] = {
    "constant": (lambda answer, draws: 1.0, "constant: every answer gets 1.00"),
    "saturated": (saturated, "saturated: "),
    "misread": (blind_to_misreading, "text that the reader misreads"),
    "hand": (for_a_wrong_hand, "pays more for a wrong hand"),
}


def findings(store: Store, *ids: str) -> dict[str, str]:
    answered = ask(store, "compare_rewards", list(ids))
    assert_as_declared(question_of("compare_rewards"), answered)
    for row in answered.tables["main"].to_pylist():
        assert row["finding"] == "none" or row["finding"] in answered.answer
    return {row["reward"]: row["finding"] for row in answered.tables["main"].to_pylist()}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault", PLANTED)
def test_each_planted_fault_is_named_and_no_other(store: Store, fault: str, seed: int) -> None:
    pay, words = PLANTED[fault]
    run = write_step(store, seed, {"planted": pay, "sound": sound})
    named = findings(store, run)
    assert words in named["planted"] and named["sound"] == "none"
    others = [other for name, (_, other) in PLANTED.items() if name != fault]
    if fault != "saturated":  # one that is blind to all but a few also pays for these
        assert not any(other in named["planted"] for other in others)


def test_a_reward_that_is_the_same_within_each_prompt_teaches_nothing(store: Store) -> None:
    numbers = iter(range(10_000))
    run = write_step(store, 1, {"by prompt": lambda answer, draws: float(next(numbers) // 8)})
    assert findings(store, run)["by prompt"].startswith("constant within a prompt: in 100 % of prompts")


@pytest.mark.parametrize("seed", range(20))
def test_sound_rewards_raise_no_alarm(store: Store, seed: int) -> None:
    scaled = {f"{scale:g}": lambda answer, draws, scale=scale: scale * sound(answer, draws) for scale in (1e-3, 1, 1e4)}
    assert set(findings(store, write_step(store, seed, scaled, prompts=12)).values()) == {"none"}


def test_the_chance_is_that_of_all_pairs_of_a_prompt(store: Store) -> None:
    paid = {False: [1.0, 2.0], True: [2.0, 0.0, 3.0, 1.5, 1.0, 0.5]}  # by whether the hand is right
    left = {key: iter(values * 30) for key, values in paid.items()}
    run = write_step(store, 1, {"r": lambda answer, _: next(left[answer["is_hand_right"]])})
    answered = ask(store, "compare_rewards", [run])
    (hand,) = (row for row in answered.tables["pairs"].to_pylist() if row["bad"] == "a wrong hand")
    wins = [(bad > good) + 0.5 * (bad == good) for bad in paid[False] for good in paid[True]]
    assert (hand["pairs"], hand["chance"]) == (30 * len(wins), pytest.approx(sum(wins) / len(wins)))
    assert (hand["mean_bad"], hand["mean_good"]) == (1.5, pytest.approx(8 / 6))
    assert hand["low"] == hand["high"] == pytest.approx(hand["chance"])  # every prompt is the same


def test_few_prompts_have_no_interval_and_a_reward_without_a_value_is_named(store: Store) -> None:
    pays = {"r": sound, "none": lambda answer, draws: None}
    for prompts, is_told in ((5, False), (6, True)):
        answered = ask(store, "compare_rewards", [write_step(store, 1, pays, prompts=prompts, training=f"{prompts}")])
        pairs = [row for row in answered.tables["pairs"].to_pylist() if row["bad"] == "a wrong hand"]
        assert [(row["low"] is not None, row["high"] is not None) for row in pairs] == [(is_told, is_told)]
        assert ("fewer than 6 prompts" in answered.answer) is not is_told
        assert "`none`: no value in any answer." in answered.answer


def test_codes_without_a_decoder_are_left_out_of_what_is_usable(store: Store) -> None:
    codes = {"clean": True, "failed": [{"check": "codes", "atoms": [], "detail": "not judged"}]}
    run = write_step(store, 1, {"sound": sound}, verdict_of_all=codes)
    answered = ask(store, "compare_steps", [run], {"reward": "sound"})
    (row,) = answered.tables["main"].to_pylist()
    assert (row["passed"], row["usable"], row["paid_unusable"], row["not_judged"]) == (1.0, None, None, 240)
    assert answered.answer.endswith(
        "passed 100 %, collapsed 0 %.\n240 of 240 answers not judged: codes without a decoder."
    )
    assert findings(store, run) == {"sound": "nothing could be compared (not judged: codes without a decoder)"}
    write_step(store, 2, {"sound": sound}, usable=0.0)
    for row in ask(store, "compare_steps", [run]).tables["main"].to_pylist():
        assert (row["usable"], row["not_judged"]) == ((None, 240) if row["step"] == 1 else (0.0, None))


def test_a_text_that_was_never_read_is_not_usable(store: Store) -> None:
    unread = {"failed": [{"check": "loaded", "atoms": [], "detail": "nothing to judge"}]}
    run = write_step(store, 1, {"sound": sound}, verdict_of_all=unread)
    (row,) = ask(store, "compare_steps", [run]).tables["main"].to_pylist()
    assert (row["usable"], row["not_judged"]) == (0.0, None)
    assert "no prompt has both a good and a bad answer" in findings(store, run)["sound"]


def test_figures_of_each_step_in_their_order(store: Store) -> None:
    runs = [
        write_step(store, step, {"sound": sound}, usable=usable, near=near)
        for step, usable, near in ((100, 1.0, 0.05), (20, 0.0, 0.5), (3, 0.2, None))
    ]
    answered = ask(store, "compare_steps", runs[:1])  # one stands for all
    assert_as_declared(question_of("compare_steps"), answered)
    rows = answered.tables["main"].to_pylist()
    assert [(row["step"], row["answers"], row["passed"], row["collapsed"]) for row in rows] == [
        (3, 240, 1.0, None),
        (20, 240, 1.0, 0.0),
        (100, 240, 1.0, 1.0),
    ]
    assert rows[1]["usable"] == 0 and rows[2]["usable"] == pytest.approx(5 / 8)
    assert rows[1]["paid_usable"] is None and rows[2]["paid_usable"] - rows[2]["paid_unusable"] == pytest.approx(
        1, abs=0.2
    )
    curves = answered.tables["curves"].to_pylist()
    assert [row["share"] for row in curves if row["measure"] == "usable"] == [row["usable"] for row in rows]
    assert answered.answer.startswith("made, step 3 to 100: passed 100 % to 100 %, usable ")
    alone = write_step(store, 5, {}, training="other")
    both = ask(store, "compare_steps", [runs[0], alone])
    assert len(both.tables["main"]) == 4 and "other, step 5: passed 100 %, usable " in both.answer
    assert ask(store, "compare_rewards", [alone]).answer == "These steps have no rewards."


def test_coverage_needs_steps_that_are_evaluated(store: Store) -> None:
    first, _ = [write_step(store, step, {"sound": sound}, prompts=1) for step in (1, 2)]
    with pytest.raises(NeedsWork) as needs:
        ask(store, "compare_steps", [first], {"step_coverage": True})
    assert needs.value.commands == (["evaluate", first, "--steps"],)


def test_what_is_not_judged_or_no_training_says_so(store: Store) -> None:
    waiting = write_step(store, 1, {"sound": sound}, is_judged=False)
    for key in ("compare_steps", "compare_rewards"):
        with pytest.raises(NeedsWork) as needs:
            ask(store, key, [waiting])
        assert needs.value.commands == (["judge", waiting, "--steps"],)
    judged = write_step(store, 2, {"sound": sound})
    for key in ("compare_steps", "compare_rewards"):
        answered = ask(store, key, [waiting])
        commands = answered.tables["commands"]["command"].to_pylist()
        assert commands == [f"python -m engine judge {waiting} --steps"] and "left out" in answered.answer
    failures = write_step(store, 9, {}, reported_failures=240)
    assert ask(store, "compare_steps", [judged]).tables["main"]["step"].to_pylist() == [2]
    with pytest.raises(RunError, match="none of these runs is a step of a training: a validation's list has only"):
        ask(store, "compare_steps", [failures])
    write_run(store, "usual", [sample_row(0)])
    with pytest.raises(RunError, match="none of these runs is a step of a training"):
        ask(store, "compare_steps", ["usual"])
