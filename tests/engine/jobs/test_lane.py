"""A lane of the live page: its state while it is written, the run that it leaves, and its end when stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.guard import WrongPlace
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.decode.samples import Guarding, Reader
from engine.decode.steps import Back, Counters, Event, Shaping, Step, Stop
from engine.errors import ConstraintError
from engine.inspection import conformers
from engine.inspection.sample import inspect_sample
from engine.inspection.struck import struck_of
from engine.jobs.lane import MOST_MOLECULES, LaneWatch, write_lane
from engine.jobs.lane_figures import (
    atom_being_written,
    first_divergence,
    lane_figures,
    seconds_left,
    share_written,
    struck_so_far,
    tally,
    thrown_texts,
    tokens_a_second,
)
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import GroupWork
from engine.jobs.service import Job, Service
from engine.lp_records import lp_record
from engine.paths import DATA
from engine.records import TRIMMED4, Molecule
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.jobs.small_runs import loaded, molecules, plan_of
from tests.service_harness import ended

METHANE = parse_smiles("C")


def lane_of(folder: Path, count: int = 2, **more: Any) -> LaneWatch:
    return LaneWatch(plan_of(folder, **more), molecules(count))


def run(service: Service, watch: LaneWatch, store: Path) -> Job[None]:
    job = service.submit("a", partial(write_lane, watch, Files(store)))
    assert ended(job) == "done", job.error
    return job


@pytest.mark.parametrize("lp", ["group-v2.1", "guarded", "shaped"])
def test_the_state_holds_every_token_of_the_run_that_it_leaves(
    service: Service, folder: Path, tmp_path: Path, lp: str
) -> None:
    watch = lane_of(folder, plan={"lp": lp, "generations": 2}, keep_steps=1)
    run(service, watch, tmp_path)
    assert watch.reader is not None
    assert (watch.reader.lp, watch.reader.tokenizer.name) == (lp, "qwen3")
    assert [watch.run_row[name] for name in ("run_id", "device", "dtype")] == [watch.run_id, "cpu", "float32"]
    store = Store(Files(tmp_path))
    rows = store.rows("SELECT * FROM samples ORDER BY sample_id")
    texts = [watch.texts[row["sample_id"]] for row in rows]
    assert [(text.ids, text.forced) for text in texts] == [(row["token_ids"], row["forced"]) for row in rows]
    assert [row["smiles"] for row in rows] == [molecule.smiles for molecule in watch.molecules for _ in range(2)]
    assert [sample.sample_id for sample in watch.answered] == [0, 1, 2, 3]
    assert [sample.cut_blocks for sample in watch.answered] == [row["cut_blocks"] for row in rows]
    assert watch.run_id is not None
    row = store.entry(watch.run_id).row
    assert [watch.tokens, watch.forward_passes, watch.seconds, watch.memory_mb] == [
        row[name] for name in ("tokens", "forward_passes", "decode_s", "peak_memory_mb")
    ]
    assert {row["sample_id"] for row in store.rows("SELECT sample_id FROM steps")} == {0}
    assert unfinished_ids(store.home, RUN) == []
    if lp == "guarded":  # each try that its samples threw away is kept
        assert watch.redrawn.total() == sum(row["redrawn_blocks"] for row in rows) > 0
        assert watch.thrown_tokens == sum(row["thrown_tokens"] for row in rows)
        thrown = {sample.sample_id: sample.guarding.thrown for sample in watch.answered if sample.guarding}
        assert {sample: watch.texts[sample].thrown for sample in thrown} == {
            sample: [(attempt.back, tuple(step.token_id for step in attempt.steps)) for attempt in tries]
            for sample, tries in thrown.items()
        }
    if lp == "shaped":
        (sums,) = store.rows("SELECT sum(dead_ends) AS dead_ends, sum(struck_tokens) AS struck_tokens FROM samples")
        assert {name: getattr(watch, name) for name in sums} == sums and sums["struck_tokens"] > 0
        kept = store.rows("SELECT pos, struck FROM steps WHERE len(struck) > 0")
        assert {row["pos"]: tuple(row["struck"]) for row in kept} == watch.texts[0].struck != {}
        seen = inspect_sample(store, watch.run_id, 0)
        assert struck_of(seen, seen.steps) == struck_so_far(watch, 0)
    plain = Generation(loaded(folder), molecules(2), watch.plan.plan).run()
    assert [row["token_ids"] for row in rows] == [list(sample.token_ids) for sample in plain]


@pytest.mark.parametrize("is_enough", [lambda watch: watch.tokens, lambda watch: len(watch.answered) == 2])
def test_a_stopped_lane_leaves_nothing(
    service: Service, folder: Path, tmp_path: Path, is_enough: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is written, or while it is read again."""
    watch, take = lane_of(folder, rmsd=1, keep_steps=1, plan={"lp": "none"}), LaneWatch.take

    def work(job: Job[None]) -> None:
        def taken(*given: Any) -> None:
            take(*given)
            if is_enough(watch):
                job.stop()

        monkeypatch.setattr(LaneWatch, "take", taken)
        write_lane(watch, Files(tmp_path), job)

    assert ended(service.submit("a", work)) == "stopped" and watch.run_id is None
    store = Store(Files(tmp_path))
    assert store.listing().entries == () and store.home.folders("staging") == []


def test_references_are_made_once_for_all_lanes_and_while_the_first_one_writes(
    service: Service, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, is_made, events = list[str](), threading.Event(), GroupWork.events

    def making(molecule: Molecule, *given: Any, **more: Any) -> Any:
        made.append(molecule.smiles)
        is_made.set()
        return reference_conformers(molecule, *given, **more)

    def waiting(work: GroupWork) -> Iterator[Event]:
        assert is_made.wait(60)
        yield from events(work)

    monkeypatch.setattr(conformers, "reference_conformers", making)
    monkeypatch.setattr(GroupWork, "events", waiting)
    lanes = [lane_of(folder, plan={"lp": lp, "limit": 300}, rmsd=3) for lp in ("exact", "guarded")]
    jobs = [service.submit("a", partial(write_lane, watch, Files(tmp_path))) for watch in lanes]
    assert [ended(job) for job in jobs] == ["done", "done"]
    assert sorted(made) == sorted(molecule.smiles for molecule in lanes[0].molecules)
    assert all(row["rmsd_ang"] is not None for row in Store(Files(tmp_path)).rows("SELECT rmsd_ang FROM samples"))


def test_more_than_a_page_can_show_is_refused(folder: Path) -> None:
    for count, generations in ((MOST_MOLECULES + 1, 1), (0, 1), (5, 81)):
        with pytest.raises(ConstraintError, match=f"^{count} molecules with {generations} samples"):
            LaneWatch(plan_of(folder, plan={"generations": generations}), [METHANE] * count)


# --- what is said of a lane at every moment, of answers that were really written ------------------------------------
MODEL = "demo-llama"


Rows = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """By LP one answer each of the demo store, of the same molecule; under group-v2.1 it has junk."""
    samples = Store(Files(DATA / "demo")).rows(
        "SELECT s.*, r.lp, r.placeholder, r.tokenizer FROM samples s JOIN runs r USING (run_id) "
        "WHERE r.model_alias = $model AND s.sample_id = (SELECT min(b.sample_id) FROM samples b JOIN runs q "
        "USING (run_id) WHERE q.model_alias = $model AND q.lp = 'group-v2.1' AND b.bad_blocks > 3)",
        {"model": MODEL},
    )
    return {row["lp"]: row for row in samples}


class Written(LaneWatch):
    """A lane that a test writes, as its worker would."""

    def __init__(self, row: dict[str, Any], copies: int = 1) -> None:
        self.row, molecule = row, parse_smiles(row["smiles"])
        super().__init__(RunPlan(ModelChoice(MODEL), Plan(lp=row["lp"])), [molecule] * copies)
        tokenizer = load_tokenizer(row["tokenizer"])
        self.reader = Reader(tokenizer, lp_record(row["lp"]).name, row["placeholder"] or "", TRIMMED4)
        self.template_tokens = [len(row["token_ids"])] * copies
        self.generation: Any = SimpleNamespace(counters=Counters(), samples=[])
        self.struck: dict[int, tuple[int, ...]] = {}  # by position, of what is written

    def write(self, start: int, stop: int, sample: int = 0, seconds: float = 0.0) -> None:
        counters = self.generation.counters
        for pos, (id_, forced) in enumerate(zip(self.row["token_ids"], self.row["forced"], strict=True)):
            if start <= pos < stop:
                shaping = Shaping(self.struck[pos], -1.0, -1.0, -1.0, 0.0) if pos in self.struck else None
                self.take(self.generation, counters.count(Step(sample, pos, id_, forced, None, shaping)), seconds)

    def back(self, *event: Any) -> None:
        counters, back = self.generation.counters, Back(*event)
        counters.throw_away(back, self.texts[back.sample].forced[back.pos :])
        self.take(self.generation, back, 0.0)

    def end(self, sample: int = 0, seconds: float = 0.0) -> None:
        assert self.reader is not None
        row, molecule = self.row, self.molecule_of(sample)
        answer = self.reader.read(molecule, row["token_ids"], row["forced"], "end", sample_id=sample)
        self.generation.samples.append(answer)
        self.take(self.generation, Stop(sample, "end"), seconds)

    def whole(self, sample: int = 0, seconds: float = 0.0) -> None:
        self.write(0, len(self.row["token_ids"]), sample, seconds)
        self.end(sample, seconds)


@pytest.mark.parametrize("lp", ["exact", "group-v2.1"])
def test_junk_is_marked_when_it_comes_and_stays(rows: Rows, lp: str) -> None:
    row, watch = rows[lp], Written(rows[lp])
    junk: set[int] = set()
    atoms, shares = [], [share_written(watch)]
    for index in range(len(row["token_ids"])):
        watch.write(index, index + 1, seconds=0.1 * index)
        shares.append(share_written(watch))
        atoms.append(atom_being_written(watch, 0))
        aligned: Any = watch.alignment(0)
        now = {token.pos for token in aligned.rows if token.mark == "junk" and token.pos is not None}
        block_of = {token.pos: token.text_block for token in aligned.rows if token.pos is not None}
        closed = {pos for pos in junk if block_of[pos] < max(block_of.values())}
        assert closed <= now  # a block that is closed is judged for good
        junk = now
    assert shares == sorted(shares) and shares[0] == 0 and tokens_a_second(watch) == pytest.approx(10, rel=0.2)
    assert {atom for atom in atoms if atom is not None} == set(range(row["atoms"]))
    assert tally(watch, 0)["blocks"] >= row["blocks"] - 1  # of a sample that has not ended
    watch.end()
    counts = tally(watch, 0)
    assert (counts["junk"] >= 3) == bool(junk) == (lp != "exact") and counts["blocks"] == row["blocks"]
    assert atom_being_written(watch, 0) is None


def test_what_a_guard_throws_away_is_kept_beside_the_text(rows: Rows) -> None:
    row = rows["exact"] | {"lp": "guarded"}
    watch, block_of = Written(row, copies=2), starts_of_blocks(row)
    watch.write(0, block_of[3])
    watch.back(0, block_of[2], 2, (WrongPlace("stereo", (2, 0, 1)),))
    text = watch.texts[0]
    assert text.ids == row["token_ids"][: block_of[2]] and text.forced == row["forced"][: block_of[2]]
    watch.write(block_of[2], block_of[3])
    watch.back(0, block_of[1], 1, (WrongPlace("bonds", (2, 1)),))
    thrown = [row["token_ids"][block_of[start] : block_of[3]] for start in (2, 1)]
    texts = list(map(load_tokenizer(row["tokenizer"]).decode, thrown))
    kept = [(entry.text, list(entry.blocks)) for entry in thrown_texts(watch, 0)]
    assert kept == [(texts[0], [2]), (texts[1], [1, 2])]
    assert thrown_texts(watch, 1) == []
    watch.write(0, block_of[2], sample=1)
    watch.back(1, block_of[1], 1, (WrongPlace("bonds", (1, 0)),))
    assert watch.redrawn == {"stereo": 1, "bonds": 2}
    assert watch.thrown_tokens == sum(map(len, thrown)) + block_of[2] - block_of[1]
    assert lane_figures([(watch, None)])[0]["redrawn_blocks"] == 3
    assert lane_figures([(Written(rows["exact"]), None)])[0]["redrawn_blocks"] is None


def test_what_was_struck_goes_with_the_tokens_that_go(rows: Rows) -> None:
    row = rows["exact"] | {"lp": "shaped"}
    watch, block_of = Written(row), starts_of_blocks(row)
    tokenizer = load_tokenizer(row["tokenizer"])
    minus, seven = (tokenizer.encode(text)[0] for text in ("-", "7"))
    watch.struck = {block_of[2]: (minus,), block_of[3] - 1: (seven, minus)}
    watch.write(0, block_of[3])
    before = struck_so_far(watch, 0)
    assert before.keys() == {block_of[2], block_of[3] - 1}
    assert before[block_of[2]].startswith("struck here: `-` — ")
    assert before[block_of[3] - 1].startswith("struck here: `7`, `-` — ")
    watch.back(0, block_of[3] - 1, 2, (WrongPlace("angles", (2, 0)),))
    assert watch.texts[0].struck == {block_of[2]: (minus,)}
    assert struck_so_far(watch, 0).keys() == {block_of[2]}
    (figures,) = lane_figures([(watch, None)])
    assert [figures[name] for name in ("dead_ends", "struck_tokens", "redrawn_blocks")] == [1, 1, None]
    answer: Any = SimpleNamespace(guarding=Guarding(unmended=(WrongPlace("bonds", (2, 1)),)))
    watch.texts[0].answer = answer  # one more, which was not left
    assert watch.dead_ends == 2


def starts_of_blocks(row: dict[str, Any]) -> list[int]:
    """The position of each block's first token."""
    watch = Written(row)
    watch.whole()
    aligned: Any = watch.alignment(0)
    free = [(token.block, token.pos) for token in aligned.rows if token.pos is not None and token.text_role == "FREE"]
    return [min(pos for of, pos in free if of == block) for block in range(row["atoms"])]


def test_where_two_lanes_part(rows: Rows) -> None:
    lanes = {lp: Written(rows[lp]) for lp in ("none", "group-v2.1", "exact")}
    for watch in lanes.values():
        watch.whole()
    point: Any = first_divergence(lanes["none"], lanes["group-v2.1"], 0)
    left, right = (rows[lp]["token_ids"] for lp in ("none", "group-v2.1"))
    assert left[: point.pos] == right[: point.pos] and left[point.pos] != right[point.pos]
    tokenizer = load_tokenizer("llama3")
    assert (point.first_piece, point.piece) == (tokenizer.piece(left[point.pos]), tokenizer.piece(right[point.pos]))
    assert point.atom is not None
    assert first_divergence(lanes["none"], lanes["none"], 0) is None


def test_figures_and_their_ratios_to_the_first(rows: Rows) -> None:
    plain, exact = Written(rows["none"]), Written(rows["exact"])
    for watch, figures in ((plain, (100, 0, 4.0)), (exact, (100, 40, 0.5))):
        watch.tokens, watch.forced_tokens, watch.seconds = figures
    compared = lane_figures([(plain, None), (exact, {"samples": 1, "clean": 1, "rmsd_ang": 0.5, "stereo_judged": 0})])
    assert [figures["time_ratio"] for figures in compared] == [1.0, 0.125]
    assert (compared[1]["forced_share"], compared[1]["clean"], compared[0]["clean"]) == (0.4, 1, None)
    assert lane_figures([(Written(rows["none"]), None)])[0]["time_ratio"] is None


def test_the_time_left_is_of_all_lanes(rows: Rows) -> None:
    row = rows["exact"]
    fresh, half, done = (Written(row) for _ in range(3))
    assert seconds_left([(fresh, 1.0, False)] * 2) is None
    half.write(0, len(row["token_ids"]) // 2, seconds=4.0)
    share = share_written(half)
    assert 0.3 < share < 0.7
    assert seconds_left([(half, 5.0, False)]) == pytest.approx(5 * (1 - share) / share)
    assert seconds_left([(half, 5.0, False), (fresh, 0.0, False)]) == pytest.approx(5 * (2 - share) / share)
    done.whole()
    assert seconds_left([(done, 5.0, True)] * 2) == 0.0
