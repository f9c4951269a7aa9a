"""What is said of a lane while it is written, at every moment of answers that were really written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.chem.guard import WrongPlace
from engine.chem.smiles import parse_smiles
from engine.decode.plan import Plan
from engine.decode.samples import Reader
from engine.decode.steps import Back
from engine.jobs.lane import (
    Lane,
    LaneCounts,
    LaneEvent,
    LaneFinished,
    LaneOpened,
    LaneSamples,
    LaneTokens,
    SampleEnded,
)
from engine.jobs.lane_state import LaneWatch, Tally
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.summary import LaneTime, all_seconds_left, figures_of, first_divergence, with_ratios
from engine.paths import DATA
from engine.records import TRIMMED4
from engine.store.files import LocalFiles
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer

MODEL = "demo-llama"


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    """By LP one answer each of the demo store, of the same molecule; under group-v2.1 it has junk."""
    found = Store(LocalFiles(DATA / "demo")).rows(
        "SELECT s.*, r.lp, r.placeholder, r.tokenizer FROM samples s JOIN runs r USING (run_id) "
        "WHERE r.model_alias = $model AND s.sample_id = (SELECT min(b.sample_id) FROM samples b JOIN runs q "
        "USING (run_id) WHERE q.model_alias = $model AND q.lp = 'group-v2.1' AND b.bad_blocks > 3)",
        {"model": MODEL},
    )
    return {row["lp"]: row for row in found}


def watch_of(row: dict[str, Any], copies: int = 1) -> LaneWatch:
    molecule = parse_smiles(row["smiles"])
    lane = Lane((molecule.smiles,) * copies, RunPlan(ModelChoice(MODEL), Plan(lp=row["lp"])))
    watch = LaneWatch(lane, [molecule] * copies)
    watch.take([LaneOpened(row["tokenizer"], row["lp"], row["placeholder"] or "", TRIMMED4, "cpu", copies)])
    return watch


def tokens(row: dict[str, Any], start: int, stop: int, sample: int = 0) -> LaneTokens:
    return LaneTokens(sample, tuple(row["token_ids"][start:stop]), tuple(row["forced"][start:stop]))


def answer(row: dict[str, Any], sample: int = 0) -> SampleEnded:
    reader = Reader(load_tokenizer(row["tokenizer"]), row["lp"], row["placeholder"] or "", TRIMMED4)
    molecule = parse_smiles(row["smiles"])
    return SampleEnded(reader.read(molecule, row["token_ids"], row["forced"], "end", sample_id=sample), "end")


def whole(row: dict[str, Any]) -> Sequence[LaneEvent]:
    count = len(row["token_ids"])
    return [tokens(row, 0, count), LaneCounts(count, sum(row["forced"]), count, 2.0), answer(row)]


def test_before_the_first_token_there_is_nothing(rows: dict[str, dict[str, Any]]) -> None:
    watch = LaneWatch(watch_of(rows["exact"]).lane, [])
    assert watch.alignment(0) is None and watch.atom_being_written(0) is None
    assert (watch.tokens_a_second, watch.seconds_left, watch.tally(0)) == (0.0, None, Tally())


@pytest.mark.parametrize("lp", ["none", "exact"])
def test_a_text_that_is_in_order_is_never_marked_on_the_way(rows: dict[str, dict[str, Any]], lp: str) -> None:
    row, watch = rows[lp], watch_of(rows[lp])
    atoms = []
    for place in range(len(row["token_ids"])):
        watch.take([tokens(row, place, place + 1)])
        aligned = watch.alignment(0)
        assert aligned is not None
        assert {one.mark for one in aligned.rows if one.pos is not None} <= {"", "beyond"}
        assert watch.tally(0).junk == watch.tally(0).cut == 0
        atoms.append(watch.atom_being_written(0))
    reached = [atom for atom in atoms if atom is not None]
    assert reached == sorted(reached) and set(reached) == set(range(row["atoms"]))


def test_junk_is_marked_when_it_comes_and_stays(rows: dict[str, dict[str, Any]]) -> None:
    row, watch = rows["group-v2.1"], watch_of(rows["group-v2.1"])
    junk: set[int] = set()
    for place in range(len(row["token_ids"])):
        watch.take([tokens(row, place, place + 1)])
        aligned = watch.alignment(0)
        assert aligned is not None
        now = {one.pos for one in aligned.rows if one.mark == "junk" and one.pos is not None}
        block_of = {one.pos: one.text_block for one in aligned.rows if one.pos is not None}
        closed = {pos for pos in junk if block_of[pos] < max(block_of.values())}
        assert closed <= now  # a block that is closed is judged for good
        junk = now
    assert junk
    watch.take([answer(row)])
    found = watch.tally(0)
    assert found.junk >= 3 and found.blocks == row["blocks"]
    assert watch.atom_being_written(0) is None


def test_what_a_guard_throws_away_is_kept_beside_the_text(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["exact"] | {"lp": "guarded"}
    watch, block_of = watch_of(row, copies=2), starts_of_blocks(row)
    watch.take([tokens(row, 0, block_of[3]), Back(0, block_of[2], 2, (WrongPlace("stereo", (2, 0, 1)),))])
    text = watch.texts[0]
    assert text.ids == row["token_ids"][: block_of[2]] and text.forced == row["forced"][: block_of[2]]
    watch.take([tokens(row, block_of[2], block_of[3]), Back(0, block_of[1], 1, (WrongPlace("bonds", (2, 1)),))])
    assert text.failed_by_block == {1: ["bonds"], 2: ["stereo", "bonds"]}
    thrown = [row["token_ids"][block_of[start] : block_of[3]] for start in (2, 1)]
    decode = load_tokenizer(row["tokenizer"]).decode
    assert [(one.text, list(one.blocks)) for one in watch.thrown(0)] == [
        (decode(thrown[0]), [2]),
        (decode(thrown[1]), [1, 2]),
    ]
    assert watch.thrown(1) == []
    watch.take([tokens(row, 0, block_of[2], sample=1), Back(1, block_of[1], 1, (WrongPlace("bonds", (1, 0)),))])
    assert watch.redrawn == {"stereo": 1, "bonds": 2}
    assert watch.thrown_tokens == sum(map(len, thrown)) + block_of[2] - block_of[1]
    assert figures_of(watch, None)["redrawn_blocks"] == 3
    assert figures_of(watch_of(rows["exact"]), None)["redrawn_blocks"] is None


def starts_of_blocks(row: dict[str, Any]) -> list[int]:
    """The position of each block's first token."""
    watch = watch_of(row)
    watch.take(whole(row))
    aligned = watch.alignment(0)
    assert aligned is not None
    free = [(one.block, one.pos) for one in aligned.rows if one.pos is not None and one.text_role == "FREE"]
    return [min(pos for of, pos in free if of == block) for block in range(row["atoms"])]


def test_what_the_model_says_afterwards_is_taken_over(rows: dict[str, dict[str, Any]]) -> None:
    row, watch = rows["group-v2.1"], watch_of(rows["group-v2.1"])
    watch.take(whole(row))
    sample = watch.answered[0]
    doubtful = next(block.block for block in sample.blocks if block.kinds == ("unverified",))
    blocks = tuple(replace(block, kinds=("cut",)) if block.block == doubtful else block for block in sample.blocks)
    before = watch.tally(0).cut
    watch.take([LaneSamples((replace(sample, blocks=blocks),))])
    aligned = watch.alignment(0)
    assert aligned is not None and watch.tally(0).cut == before + 1
    assert [one.text_block for one in aligned.rows if one.mark == "cut"].count(doubtful) == 1


def test_an_end_in_sight(rows: dict[str, dict[str, Any]]) -> None:
    row, watch = rows["exact"], watch_of(rows["exact"], copies=2)
    count = len(row["token_ids"])
    shares = [watch.share_written]
    for place in range(0, count, 20):
        watch.take([tokens(row, place, place + 20), LaneCounts(place + 20, 0, place + 20, 0.1 * (place + 20))])
        shares.append(watch.share_written)
    assert shares == sorted(shares) and 0.3 < shares[-1] < 0.7
    assert watch.seconds_left == pytest.approx(watch.counted.seconds, rel=0.7)
    assert watch.tokens_a_second == pytest.approx(10)
    watch.take([answer(row), tokens(row, 0, count, sample=1), answer(row, 1)])
    assert watch.share_written == 1.0 and watch.seconds_left is None
    assert [one.sample_id for one in watch.answered] == [0, 1]


def test_where_two_lanes_part(rows: dict[str, dict[str, Any]]) -> None:
    lanes = {lp: watch_of(rows[lp]) for lp in ("none", "group-v2.1", "exact")}
    for lp, watch in lanes.items():
        watch.take([*whole(rows[lp]), LaneFinished(f"run-{lp}", ())])
    found = first_divergence(lanes["none"], lanes["group-v2.1"], 0)
    assert found is not None
    left, right = (rows[lp]["token_ids"] for lp in ("none", "group-v2.1"))
    assert left[: found.pos] == right[: found.pos] and left[found.pos] != right[found.pos]
    tokenizer = load_tokenizer("llama3")
    assert (found.first_piece, found.piece) == (tokenizer.piece(left[found.pos]), tokenizer.piece(right[found.pos]))
    assert found.atom is not None
    assert first_divergence(lanes["none"], lanes["none"], 0) is None
    assert first_divergence(lanes["none"], lanes["exact"], 7) is None


def test_figures_and_their_ratios_to_the_first(rows: dict[str, dict[str, Any]]) -> None:
    one, other = watch_of(rows["none"]), watch_of(rows["exact"])
    one.take([LaneCounts(100, 0, 100, 4.0)])
    other.take([LaneCounts(100, 40, 60, 0.5)])
    found = with_ratios([figures_of(one, None), figures_of(other, {"samples": 1, "clean": 1, "rmsd_ang": 0.5})])
    assert (found[0]["time_ratio"], found[0]["speed_ratio"]) == (1.0, 1.0)
    assert (found[1]["time_ratio"], found[1]["speed_ratio"]) == (0.125, 8.0)
    assert (found[1]["forced_share"], found[1]["clean"], found[0]["clean"]) == (0.4, 1, None)
    empty = watch_of(rows["none"])
    assert with_ratios([figures_of(empty, None)])[0]["time_ratio"] is None


def test_the_time_left_is_of_all_lanes(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["exact"]
    count = len(row["token_ids"])
    fresh, half, done = (watch_of(row) for _ in range(3))
    assert all_seconds_left([LaneTime(fresh, 0.0, has_ended=False)] * 2) is None
    half.take([tokens(row, 0, count // 2), LaneCounts(count // 2, 0, count // 2, 4.0)])
    own_s = half.seconds_left
    assert own_s is not None
    running, waiting = LaneTime(half, 5.0, has_ended=False), LaneTime(fresh, 0.0, has_ended=False)
    assert all_seconds_left([running, waiting, waiting]) == pytest.approx(own_s + 2 * (4.0 + own_s))
    done.take([*whole(row), LaneFinished("run", ())])  # 2 s of writing, and 3 s besides
    ended = LaneTime(done, 5.0, has_ended=True)
    assert all_seconds_left([ended, ended]) == 0.0
    assert all_seconds_left([ended, running]) == pytest.approx(own_s + 3.0)
    half.take(whole(row)[1:])  # it is checked now
    assert all_seconds_left([ended, LaneTime(half, 4.0, has_ended=False)]) == pytest.approx(1.0)
    assert all_seconds_left([ended, LaneTime(half, 9.0, has_ended=False)]) == 0.0
