"""What is said of a lane while it is written, at every moment of answers that were really written."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from engine.chem.guard import WrongPlace
from engine.chem.smiles import parse_smiles
from engine.decode.plan import Plan
from engine.decode.samples import Reader
from engine.decode.steps import Back, Counters, Step, Stop
from engine.jobs.lane import LaneWatch
from engine.jobs.plan import ModelChoice, RunPlan
from engine.lp_records import lp_record
from engine.paths import DATA
from engine.questions.live_lanes import (
    atom_being_written,
    first_divergence,
    lane_figures,
    seconds_left,
    share_written,
    tally,
    thrown_texts,
    tokens_a_second,
)
from engine.records import TRIMMED4
from engine.store.files import Files
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer

MODEL = "demo-llama"


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    """By LP one answer each of the demo store, of the same molecule; under group-v2.1 it has junk."""
    found = Store(Files(DATA / "demo")).rows(
        "SELECT s.*, r.lp, r.placeholder, r.tokenizer FROM samples s JOIN runs r USING (run_id) "
        "WHERE r.model_alias = $model AND s.sample_id = (SELECT min(b.sample_id) FROM samples b JOIN runs q "
        "USING (run_id) WHERE q.model_alias = $model AND q.lp = 'group-v2.1' AND b.bad_blocks > 3)",
        {"model": MODEL},
    )
    return {row["lp"]: row for row in found}


class Written(LaneWatch):
    """A lane that a test writes, as its worker would."""

    def __init__(self, row: dict[str, Any], copies: int = 1) -> None:
        self.row, molecule = row, parse_smiles(row["smiles"])
        super().__init__(RunPlan(ModelChoice(MODEL), Plan(lp=row["lp"])), [molecule] * copies)
        tokenizer = load_tokenizer(row["tokenizer"])
        self.reader = Reader(tokenizer, lp_record(row["lp"]).name, row["placeholder"] or "", TRIMMED4)
        self.template_tokens = [len(row["token_ids"])] * copies
        self.generation: Any = SimpleNamespace(counters=Counters(), samples=[])

    def write(self, start: int, stop: int, sample: int = 0, seconds: float = 0.0) -> None:
        counters = self.generation.counters
        for pos, (id_, forced) in enumerate(zip(self.row["token_ids"], self.row["forced"], strict=True)):
            if start <= pos < stop:
                self.take(self.generation, counters.count(Step(sample, pos, id_, forced)), seconds)

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


def test_before_the_first_token_there_is_nothing(rows: dict[str, dict[str, Any]]) -> None:
    watch = Written(rows["exact"])
    watch.reader = None
    assert watch.alignment(0) is None and atom_being_written(watch, 0) is None
    assert (tokens_a_second(watch), share_written(watch), tally(watch, 0)["blocks"]) == (0.0, 0.0, 0)


@pytest.mark.parametrize("lp", ["none", "exact"])
def test_a_text_that_is_in_order_is_never_marked_on_the_way(rows: dict[str, dict[str, Any]], lp: str) -> None:
    row, watch = rows[lp], Written(rows[lp])
    atoms = []
    for place in range(len(row["token_ids"])):
        watch.write(place, place + 1)
        aligned = watch.alignment(0)
        assert aligned is not None
        assert {one.mark for one in aligned.rows if one.pos is not None} <= {"", "beyond"}
        assert tally(watch, 0)["junk"] == tally(watch, 0)["cut"] == 0
        atoms.append(atom_being_written(watch, 0))
    reached = [atom for atom in atoms if atom is not None]
    assert reached == sorted(reached) and set(reached) == set(range(row["atoms"]))


def test_junk_is_marked_when_it_comes_and_stays(rows: dict[str, dict[str, Any]]) -> None:
    row, watch = rows["group-v2.1"], Written(rows["group-v2.1"])
    junk: set[int] = set()
    for place in range(len(row["token_ids"])):
        watch.write(place, place + 1)
        aligned = watch.alignment(0)
        assert aligned is not None
        now = {one.pos for one in aligned.rows if one.mark == "junk" and one.pos is not None}
        block_of = {one.pos: one.text_block for one in aligned.rows if one.pos is not None}
        closed = {pos for pos in junk if block_of[pos] < max(block_of.values())}
        assert closed <= now  # a block that is closed is judged for good
        junk = now
    assert junk
    watch.end()
    found = tally(watch, 0)
    assert found["junk"] >= 3 and found["blocks"] == row["blocks"]
    assert atom_being_written(watch, 0) is None


def test_what_a_guard_throws_away_is_kept_beside_the_text(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["exact"] | {"lp": "guarded"}
    watch, block_of = Written(row, copies=2), starts_of_blocks(row)
    watch.write(0, block_of[3])
    watch.back(0, block_of[2], 2, (WrongPlace("stereo", (2, 0, 1)),))
    text = watch.texts[0]
    assert text.ids == row["token_ids"][: block_of[2]] and text.forced == row["forced"][: block_of[2]]
    watch.write(block_of[2], block_of[3])
    watch.back(0, block_of[1], 1, (WrongPlace("bonds", (2, 1)),))
    thrown = [row["token_ids"][block_of[start] : block_of[3]] for start in (2, 1)]
    decode = load_tokenizer(row["tokenizer"]).decode
    assert [(one.text, list(one.blocks)) for one in thrown_texts(watch, 0)] == [
        (decode(thrown[0]), [2]),
        (decode(thrown[1]), [1, 2]),
    ]
    assert thrown_texts(watch, 1) == []
    watch.write(0, block_of[2], sample=1)
    watch.back(1, block_of[1], 1, (WrongPlace("bonds", (1, 0)),))
    assert watch.redrawn == {"stereo": 1, "bonds": 2}
    assert watch.thrown_tokens == sum(map(len, thrown)) + block_of[2] - block_of[1]
    assert lane_figures([(watch, None)])[0]["redrawn_blocks"] == 3
    assert lane_figures([(Written(rows["exact"]), None)])[0]["redrawn_blocks"] is None


def starts_of_blocks(row: dict[str, Any]) -> list[int]:
    """The position of each block's first token."""
    watch = Written(row)
    watch.whole()
    aligned = watch.alignment(0)
    assert aligned is not None
    free = [(one.block, one.pos) for one in aligned.rows if one.pos is not None and one.text_role == "FREE"]
    return [min(pos for of, pos in free if of == block) for block in range(row["atoms"])]


def test_what_the_model_says_afterwards_is_taken_over(rows: dict[str, dict[str, Any]]) -> None:
    watch = Written(rows["group-v2.1"])
    watch.whole()
    sample = watch.answered[0]
    doubtful = next(block.block for block in sample.blocks if block.kinds == ("unverified",))
    blocks = tuple(replace(block, kinds=("cut",)) if block.block == doubtful else block for block in sample.blocks)
    before = tally(watch, 0)["cut"]
    watch.texts[0].answer = replace(sample, blocks=blocks)
    aligned = watch.alignment(0)
    assert aligned is not None and tally(watch, 0)["cut"] == before + 1
    assert [one.text_block for one in aligned.rows if one.mark == "cut"].count(doubtful) == 1


def test_an_end_in_sight(rows: dict[str, dict[str, Any]]) -> None:
    row, watch = rows["exact"], Written(rows["exact"], copies=2)
    count = len(row["token_ids"])
    shares = [share_written(watch)]
    for place in range(0, count, 20):
        watch.write(place, place + 20, seconds=0.1 * (place + 20))
        shares.append(share_written(watch))
    assert shares == sorted(shares) and 0.3 < shares[-1] < 0.7
    assert tokens_a_second(watch) == pytest.approx(10, rel=0.2)
    watch.end()
    watch.whole(1)
    assert share_written(watch) == 1.0
    assert [one.sample_id for one in watch.answered] == [0, 1]


def test_where_two_lanes_part(rows: dict[str, dict[str, Any]]) -> None:
    lanes = {lp: Written(rows[lp]) for lp in ("none", "group-v2.1", "exact")}
    for watch in lanes.values():
        watch.whole()
    found = first_divergence(lanes["none"], lanes["group-v2.1"], 0)
    assert found is not None
    left, right = (rows[lp]["token_ids"] for lp in ("none", "group-v2.1"))
    assert left[: found.pos] == right[: found.pos] and left[found.pos] != right[found.pos]
    tokenizer = load_tokenizer("llama3")
    assert (found.first_piece, found.piece) == (tokenizer.piece(left[found.pos]), tokenizer.piece(right[found.pos]))
    assert found.atom is not None
    assert first_divergence(lanes["none"], lanes["none"], 0) is None


def test_figures_and_their_ratios_to_the_first(rows: dict[str, dict[str, Any]]) -> None:
    one, other = Written(rows["none"]), Written(rows["exact"])
    for watch, figures in ((one, (100, 0, 4.0)), (other, (100, 40, 0.5))):
        watch.tokens, watch.forced_tokens, watch.seconds = figures
    found = lane_figures([(one, None), (other, {"samples": 1, "clean": 1, "rmsd_ang": 0.5, "stereo_judged": 0})])
    assert (found[0]["time_ratio"], found[0]["speed_ratio"]) == (1.0, 1.0)
    assert (found[1]["time_ratio"], found[1]["speed_ratio"]) == (0.125, 8.0)
    assert (found[1]["forced_share"], found[1]["clean"], found[0]["clean"]) == (0.4, 1, None)
    assert lane_figures([(Written(rows["none"]), None)])[0]["time_ratio"] is None


def test_the_time_left_is_of_all_lanes(rows: dict[str, dict[str, Any]]) -> None:
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
