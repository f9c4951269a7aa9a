"""A lane of the live page: its stream, the run that it leaves, and what becomes of it when nobody wants it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.chem.smiles import parse_smiles
from engine.chem.verdict import PLAIN, judge_answer
from engine.decode.generation import Generation
from engine.decode.steps import Counters, Step
from engine.errors import ConstraintError
from engine.jobs.lane import (
    MOST_MOLECULES,
    MOST_SCORED_TOKENS,
    TOKENS_A_BLOCK,
    Lane,
    LaneCounts,
    LaneEvent,
    LaneFinished,
    LaneOpened,
    LaneSamples,
    LaneTokens,
    SampleEnded,
    _Pending,
    lane_work,
    scored_answers,
)
from engine.jobs.lane_state import LaneWatch
from engine.jobs.service import Control, Job, Service, Work
from engine.store.files import LocalFiles
from engine.store.schema import RUN
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from engine.text.check import answer_of
from tests.engine.jobs.small_runs import loaded, molecules, plan_of
from tests.service_harness import PATIENCE_S


def lane_of(folder: Path, count: int = 2, **more: Any) -> Lane:
    return Lane(tuple(molecule.smiles for molecule in molecules(count)), plan_of(folder, **more))


def of(kind: type, events: list[LaneEvent]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def run(service: Service, lane: Lane, place: Path) -> tuple[Job[LaneEvent], list[LaneEvent]]:
    job = service.submit("a", lane_work(lane, LocalFiles(place)))
    return job, list(job.events())


@pytest.mark.parametrize("lp", ["none", "group-v2.1", "exact"])
def test_the_stream_holds_every_token_of_the_run_that_it_leaves(
    service: Service, folder: Path, tmp_path: Path, lp: str
) -> None:
    lane = lane_of(folder, plan={"lp": lp, "generations": 2}, keep_steps=1)
    _, events = run(service, lane, tmp_path)
    assert isinstance(events[0], LaneOpened) and isinstance(events[-1], LaneFinished)
    assert (events[0].lp, events[0].tokenizer, events[0].rows) == (lp, "qwen3", 4)
    written: dict[int, list[tuple[int, bool]]] = {}
    for event in of(LaneTokens, events):
        written.setdefault(event.sample, []).extend(zip(event.ids, event.forced, strict=True))
    store = Store(LocalFiles(tmp_path))
    rows = store.rows("SELECT * FROM samples ORDER BY sample_id")
    assert {row["sample_id"]: list(zip(row["token_ids"], row["forced"], strict=True)) for row in rows} == written
    assert [row["smiles"] for row in rows] == [smiles for smiles in lane.smiles for _ in range(2)]
    assert sorted(event.sample.sample_id for event in of(SampleEnded, events)) == [0, 1, 2, 3]
    (judged,) = of(LaneSamples, events)
    assert [sample.cut_blocks for sample in judged.samples] == [row["cut_blocks"] for row in rows]
    last = of(LaneCounts, events)[-1]
    entry = store.entry(events[-1].run_id)
    assert (last.tokens, last.forward_passes) == (entry.row["tokens"], entry.row["forward_passes"])
    assert last.seconds == entry.row["decode_s"] > 0
    assert {row["sample_id"] for row in store.rows("SELECT sample_id FROM steps")} == {0}
    assert unfinished_ids(store.home, RUN) == []


def test_a_guarded_lane_keeps_each_try_that_its_samples_threw_away(
    service: Service, folder: Path, tmp_path: Path
) -> None:
    lane = lane_of(folder, plan={"lp": "guarded"})
    watch = LaneWatch(lane, molecules(2))
    watch.take(run(service, lane, tmp_path)[1])
    rows = Store(LocalFiles(tmp_path)).rows("SELECT * FROM samples ORDER BY sample_id")
    assert [watch.texts[row["sample_id"]].ids for row in rows] == [row["token_ids"] for row in rows]
    assert watch.redrawn.total() == sum(row["redrawn_blocks"] for row in rows) > 0
    assert watch.thrown_tokens == sum(row["thrown_tokens"] for row in rows)
    for sample in watch.answered:
        assert sample.guarding is not None
        kept = [(one.back, one.ids, one.blocks[-1]) for one in watch.texts[sample.sample_id].thrown]
        assert [(back.pos, back.block, ids) for back, ids, _ in kept] == [
            (one.back.pos, one.back.block, tuple(step.token_id for step in one.steps)) for one in sample.guarding.thrown
        ]
        assert [failed for _, _, failed in kept] == [max(one.back.reason.atoms) for one in sample.guarding.thrown]


def test_it_writes_what_a_plain_generation_writes(service: Service, folder: Path, tmp_path: Path) -> None:
    lane = lane_of(folder, 3)
    run(service, lane, tmp_path)
    plain = Generation(loaded(folder), molecules(3), lane.plan.plan).run()
    (entry,) = Store(LocalFiles(tmp_path)).found().entries
    rows = pq.read_table(entry.path("samples"), partitioning=None).to_pylist()
    assert [row["token_ids"] for row in rows] == [list(sample.token_ids) for sample in plain]


def hurried() -> Service:
    """A service of which every turn is over at once, where others wait."""
    ticks = itertools.count(step=100.0)
    return Service(threads=1, clock=lambda: next(ticks), heartbeat_s=1e9, grace_s=1e9)


def test_lanes_that_pause_for_each_other_write_what_they_write_alone(folder: Path, tmp_path: Path) -> None:
    lps, service = ("none", "exact", "group-v2.1"), hurried()
    lanes = {lp: lane_of(folder, plan={"lp": lp, "generations": 2}, keep_steps=2, rmsd=1, judge=True) for lp in lps}
    first = threading.Event()
    service.submit("first", lambda control: iter([first.wait(PATIENCE_S)]))  # the worker waits until all have come
    jobs = {lp: service.submit(lp, lane_work(lane, LocalFiles(tmp_path / lp))) for lp, lane in lanes.items()}
    first.set()
    events = {lp: list(job.events()) for lp, job in jobs.items()}
    service.close(PATIENCE_S)
    assert all(job.paused_s > 0 for job in jobs.values())
    for lp, lane in lanes.items():
        plain = Generation(loaded(folder), molecules(2), lane.plan.plan).run()
        (entry,) = Store(LocalFiles(tmp_path / lp)).found().entries
        rows = pq.read_table(entry.path("samples"), partitioning=None).to_pylist()
        assert [row["token_ids"] for row in rows] == [list(sample.token_ids) for sample in plain]
        verdicts = [judge_answer(answer_of(row["text"]), parse_smiles(row["smiles"]).mol, PLAIN) for row in rows]
        assert [[failed["check"] for failed in row["failed"]] for row in rows] == [
            [failed.check for failed in verdict.failed] for verdict in verdicts
        ]
        assert of(LaneCounts, events[lp])[-1].seconds == entry.row["decode_s"] < jobs[lp].paused_s


def test_no_turn_passes_before_a_lanes_first_token(folder: Path, tmp_path: Path) -> None:
    service = hurried()
    seen: list[str] = []
    first = threading.Event()
    service.submit("first", lambda control: iter([first.wait(PATIENCE_S)]))

    def noted(name: str) -> Work[LaneEvent]:
        def work(control: Control) -> Iterator[LaneEvent]:
            for event in lane_work(lane_of(folder), LocalFiles(tmp_path / name))(control):
                seen.append(f"{name} {type(event).__name__}")
                yield event

        return work

    jobs = [service.submit(name, noted(name)) for name in "ab"]
    first.set()
    assert all(job.wait(PATIENCE_S) for job in jobs)
    service.close(PATIENCE_S)
    before = seen[: seen.index("b LaneOpened")]
    assert before[:2] == ["a LaneOpened", "a LaneTokens"] and "a LaneFinished" not in before


def test_a_stopped_lane_leaves_nothing(service: Service, folder: Path, tmp_path: Path) -> None:
    job = service.submit("a", lane_work(lane_of(folder, plan={"limit": 20_000, "lp": "none"}), LocalFiles(tmp_path)))
    for event in job.events():
        if isinstance(event, LaneCounts):
            job.stop()
    assert job.state == "stopped"
    assert service.submit("a", lambda control: iter([1])).wait(PATIENCE_S)  # the worker has let go
    store = Store(LocalFiles(tmp_path))
    assert store.found().entries == () and store.home.folders("staging") == []


def test_a_lane_that_is_stopped_while_it_is_read_again_leaves_nothing(
    service: Service, folder: Path, tmp_path: Path
) -> None:
    job = service.submit("a", lane_work(lane_of(folder, rmsd=1, keep_steps=1), LocalFiles(tmp_path)))
    job_events = job.events()
    answered = 0
    while answered < 2:
        answered += isinstance(next(job_events), SampleEnded)
    job.stop()
    assert job.wait(PATIENCE_S) and job.state == "stopped"
    store = Store(LocalFiles(tmp_path))
    assert store.found().entries == () and store.home.folders("staging") == []


def test_what_cannot_be_asked_for_fails_with_its_own_words(service: Service, folder: Path, tmp_path: Path) -> None:
    job = service.submit("a", lane_work(lane_of(folder, plan={"placeholder": "0.00"}), LocalFiles(tmp_path)))
    assert job.wait(PATIENCE_S)
    assert job.state == "failed"
    assert job.poll().error == "the LP exact has no placeholder. Leave --placeholder out"
    assert Store(LocalFiles(tmp_path)).found().entries == ()


def test_more_than_a_page_can_show_is_refused(folder: Path) -> None:
    plan = plan_of(folder)
    with pytest.raises(ConstraintError, match=r"^101 molecules with 1 samples each exceed the live page\. Give 1"):
        Lane(("C",) * (MOST_MOLECULES + 1), plan)
    with pytest.raises(ConstraintError, match=r"^0 molecules"):
        Lane((), plan)
    with pytest.raises(ConstraintError, match=r"^5 molecules with 81 samples each"):
        Lane(("C",) * 5, plan_of(folder, plan={"generations": 81}))


def test_tokens_wait_for_their_time_and_none_is_lost() -> None:
    now = 0.0
    pending = _Pending(Counters(), lambda: now)
    pending.add(Step(0, 0, 5, True))
    assert not pending.is_due()
    now = 0.06
    pending.add(Step(1, 0, 6, False))
    assert pending.is_due()
    assert list(pending.taken()) == [
        LaneTokens(0, (5,), (True,)),
        LaneTokens(1, (6,), (False,)),
        LaneCounts(0, 0, 0, 0.06),
    ]
    assert not pending.is_due()
    assert [event for event in pending.taken() if isinstance(event, LaneTokens)] == []


def test_the_first_answers_are_read_again_in_full() -> None:
    assert scored_answers([1], 1) == 1
    assert scored_answers([10_000, 1], 1) == 1  # one always
    fit = MOST_SCORED_TOKENS // (10 * TOKENS_A_BLOCK)
    assert scored_answers([10] * 100, 2) == fit
    assert scored_answers([10, 10], 2) == 4
