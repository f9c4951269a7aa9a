"""A lane of the live page: its state while it is written, the run that it leaves, and its end when stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.chem.smiles import parse_smiles
from engine.chem.verdict import PLAIN, judge_answer
from engine.decode.generation import Generation
from engine.errors import ConstraintError
from engine.jobs.lane import (
    MOST_MOLECULES,
    MOST_SCORED_TOKENS,
    TOKENS_A_BLOCK,
    LaneWatch,
    lane_work,
    scored_answers,
)
from engine.jobs.service import Job, Service
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from engine.text.check import answer_of
from tests.engine.jobs.small_runs import loaded, molecules, plan_of
from tests.service_harness import PATIENCE_S, ended

METHANE = parse_smiles("C")


def lane_of(folder: Path, count: int = 2, **more: Any) -> LaneWatch:
    return LaneWatch(plan_of(folder, **more), molecules(count))


def run(service: Service, watch: LaneWatch, place: Path) -> Job[None]:
    job = service.submit("a", lane_work(watch, Files(place)))
    assert ended(job) == "done", job.error
    return job


@pytest.mark.parametrize("lp", ["none", "group-v2.1", "exact"])
def test_the_state_holds_every_token_of_the_run_that_it_leaves(
    service: Service, folder: Path, tmp_path: Path, lp: str
) -> None:
    watch = lane_of(folder, plan={"lp": lp, "generations": 2}, keep_steps=1)
    run(service, watch, tmp_path)
    assert watch.reader is not None
    assert (watch.reader.lp, watch.reader.tokenizer.name, watch.device) == (lp, "qwen3", "cpu")
    store = Store(Files(tmp_path))
    rows = store.rows("SELECT * FROM samples ORDER BY sample_id")
    texts = [watch.texts[row["sample_id"]] for row in rows]
    assert [(text.ids, text.forced) for text in texts] == [(row["token_ids"], row["forced"]) for row in rows]
    assert [row["smiles"] for row in rows] == [molecule.smiles for molecule in watch.molecules for _ in range(2)]
    assert [sample.sample_id for sample in watch.answered] == [0, 1, 2, 3]
    assert [sample.cut_blocks for sample in watch.answered] == [row["cut_blocks"] for row in rows]
    assert watch.run_id is not None
    row = store.entry(watch.run_id).row
    assert (watch.tokens, watch.forward_passes, watch.seconds) == (
        row["tokens"],
        row["forward_passes"],
        row["decode_s"],
    )
    assert {row["sample_id"] for row in store.rows("SELECT sample_id FROM steps")} == {0}
    assert unfinished_ids(store.home, RUN) == []
    plain = Generation(loaded(folder), molecules(2), watch.plan.plan).run()
    assert [row["token_ids"] for row in rows] == [list(sample.token_ids) for sample in plain]


def test_a_guarded_lane_keeps_each_try_that_its_samples_threw_away(
    service: Service, folder: Path, tmp_path: Path
) -> None:
    watch = lane_of(folder, plan={"lp": "guarded"})
    run(service, watch, tmp_path)
    rows = Store(Files(tmp_path)).rows("SELECT * FROM samples ORDER BY sample_id")
    assert [watch.texts[row["sample_id"]].ids for row in rows] == [row["token_ids"] for row in rows]
    assert watch.redrawn.total() == sum(row["redrawn_blocks"] for row in rows) > 0
    assert watch.thrown_tokens == sum(row["thrown_tokens"] for row in rows)
    for sample in watch.answered:
        assert sample.guarding is not None
        assert watch.texts[sample.sample_id].thrown == [
            (one.back, tuple(step.token_id for step in one.steps)) for one in sample.guarding.thrown
        ]


def test_a_lanes_samples_are_judged_as_their_texts(service: Service, folder: Path, tmp_path: Path) -> None:
    run(service, lane_of(folder, rmsd=1, judge=True), tmp_path)
    rows = Store(Files(tmp_path)).rows("SELECT * FROM samples ORDER BY sample_id")
    verdicts = [judge_answer(answer_of(row["text"]), parse_smiles(row["smiles"]).mol, PLAIN) for row in rows]
    assert [[failed["check"] for failed in row["failed"]] for row in rows] == [
        [failed.check for failed in verdict.failed] for verdict in verdicts
    ]


@pytest.mark.parametrize("is_enough", [lambda watch: watch.tokens, lambda watch: len(watch.answered) == 2])
def test_a_stopped_lane_leaves_nothing(
    service: Service,
    folder: Path,
    tmp_path: Path,
    is_enough: Callable[[LaneWatch], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While it is written, or while it is read again."""
    watch = lane_of(folder, rmsd=1, keep_steps=1, plan={"lp": "none"})
    take = LaneWatch.take

    def taken(*given: Any) -> None:
        take(*given)
        if is_enough(watch):
            job.stop()

    monkeypatch.setattr(LaneWatch, "take", taken)
    began = threading.Event()

    def work(job: Job[None]) -> None:
        assert began.wait(PATIENCE_S)
        lane_work(watch, Files(tmp_path))(job)

    job = service.submit("a", work)
    began.set()
    assert ended(job) == "stopped" and watch.run_id is None
    store = Store(Files(tmp_path))
    assert store.found().entries == () and store.home.folders("staging") == []


def test_what_cannot_be_asked_for_fails_with_its_own_words(service: Service, folder: Path, tmp_path: Path) -> None:
    job = service.submit("a", lane_work(lane_of(folder, plan={"placeholder": "0.00"}), Files(tmp_path)))
    assert ended(job) == "failed"
    assert job.poll().error == "the LP exact has no placeholder. Leave --placeholder out"
    assert Store(Files(tmp_path)).found().entries == ()


def test_more_than_a_page_can_show_is_refused(folder: Path) -> None:
    plan = plan_of(folder)
    with pytest.raises(ConstraintError, match=r"^101 molecules with 1 samples each exceed the live page\. Give 1"):
        LaneWatch(plan, [METHANE] * (MOST_MOLECULES + 1))
    with pytest.raises(ConstraintError, match=r"^0 molecules"):
        LaneWatch(plan, [])
    with pytest.raises(ConstraintError, match=r"^5 molecules with 81 samples each"):
        LaneWatch(plan_of(folder, plan={"generations": 81}), [METHANE] * 5)


def test_the_first_answers_are_read_again_in_full() -> None:
    assert scored_answers([1], 1) == 1
    assert scored_answers([10_000, 1], 1) == 1  # one always
    fit = MOST_SCORED_TOKENS // (10 * TOKENS_A_BLOCK)
    assert scored_answers([10] * 100, 2) == fit
    assert scored_answers([10, 10], 2) == 4
