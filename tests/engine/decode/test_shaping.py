"""``shaped``: its law against the full mask, its molecules against the verdict, its loops against one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.chem.enriched import as_decimals
from engine.chem.smiles import parse_written
from engine.chem.verdict import judge_answer
from engine.decode.generation import Generation
from engine.decode.plan import Plan, Sampling, preset
from engine.decode.sampling import sample
from engine.decode.shaping import Shaper
from engine.lp.places import MoleculePlaces, failing
from engine.lp.shaped import RIGHT, UNKNOWN, WRONG
from engine.lp_records import GuardSettings
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import BinFormat
from tests.support import sized

SAMPLINGS = (
    Sampling(),
    Sampling(0.7, top_p=0.8),
    Sampling(0.8, min_p=0.1),
    Sampling(1.2, top_k=4),
    Sampling(1.0, top_k=5, top_p=0.7, min_p=0.05),
)
RINGS = ("O=Cc1cnc([C@@H]2C[C@H](O)CO2)s1", "C[C@H]1CC[C@H](N)C[C@@H]1C", "C[C@@H](O)[C@@H](N)C(=O)O", "C/C=C/C(=O)OC")


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model(next(entry for entry in load_registry().entries if entry.alias == "demo-qwen"), "cpu")


class KnownTokens:
    """Of a fixed set of columns it is known which are right, once they are asked."""

    def __init__(self, right: Sequence[int]) -> None:
        self.right, self.asked = set(right), 0

    def candidates(self, answers: Sequence[Any], is_legal: np.ndarray) -> Any:
        status = np.where(is_legal, UNKNOWN, WRONG).astype(np.int8)
        return SimpleNamespace(status=status, is_legal=is_legal)

    def see(self, candidates: Any, index: np.ndarray, columns: np.ndarray) -> None:
        """Nothing is known of a token before it is asked."""

    def widen(self, candidates: Any, index: int) -> bool:
        return False

    def ask(self, candidates: Any, index: np.ndarray, columns: np.ndarray, **_: Any) -> None:
        is_new = candidates.status[index, columns] == UNKNOWN
        self.asked += int(is_new.sum())
        candidates.status[index, columns] = np.where(np.isin(columns, list(self.right)), RIGHT, WRONG)

    @property
    def columns(self) -> np.ndarray:
        return np.arange(12)


def asked_rows(count: int) -> list[Any]:
    return [SimpleNamespace(answer=SimpleNamespace(is_asked=True), shaping=None) for _ in range(count)]


@pytest.mark.soak
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_law_is_that_of_the_mask(sampling: Sampling) -> None:
    count = sized(4_000, 20_000)
    scores = torch.tensor([2.0, 1.8, 1.5, 1.2, 1.0, 0.5, 0.3, 0.0, -0.5, -1.0, -2.0, -3.0])
    logits = scores.repeat(count, 1)
    right, draws = [1, 3, 4, 6, 9, 10], torch.Generator().manual_seed(2)
    rows = asked_rows(count)
    tokens: Any = KnownTokens(right)

    def redraw(rows: Sequence[int], tries: Sequence[int]) -> Tensor:
        return torch.rand(len(rows), generator=draws, dtype=torch.float64)

    shaper = Shaper(tokens, sampling, redraw)
    drawn, dead = shaper.choose(rows, logits, torch.rand(count, generator=draws, dtype=torch.float64))
    masked = torch.full_like(logits, -torch.inf)
    masked[:, right] = logits[:, right]
    expected = sample(masked, sampling, torch.linspace(0, 1 - 1e-9, count, dtype=torch.float64))
    of_law, of_mask = (torch.bincount(columns, minlength=len(scores)).double() for columns in (drawn, expected))
    assert not dead and not of_law[of_mask == 0].any()
    seen = of_mask > 0
    chi_square = float(((of_law - of_mask)[seen] ** 2 / of_mask[seen]).sum())
    assert chi_square < 4 * int(seen.sum()) + 12
    assert tokens.asked <= count * len(scores)

    # What is told of the draws: the share that is right, on average, and how likely the token was.
    share = float((scores / (sampling.temperature)).softmax(dim=0)[right].sum())
    shares = np.exp([row.shaping.ln_share for row in rows])
    assert abs(shares.mean() - share) < 4 * shares.std() / count**0.5 + 1e-6
    assert all(row.shaping.ln_least <= np.log(share) + 1e-6 for row in rows)
    assert all(row.shaping.ln_most >= np.log(share) - 1e-6 for row in rows)
    assert not any(set(row.shaping.struck) & set(right) for row in rows)
    if sampling.has_filters:
        frequency = of_law / count
        told = torch.tensor([row.shaping.ln_q for row in rows]).exp()
        for column in of_mask.nonzero()[:, 0].tolist():
            assert told[drawn == column].mean() == pytest.approx(float(frequency[column]), rel=0.2)


def test_where_nothing_is_right_the_row_is_at_a_dead_end() -> None:
    rows = asked_rows(1)
    for sampling in (*SAMPLINGS, Sampling(0.0)):
        tokens: Any = KnownTokens([])
        shaper = Shaper(tokens, sampling, lambda rows, tries: torch.full((len(rows),), 0.5, dtype=torch.float64))
        _drawn, dead = shaper.choose(rows, torch.zeros(1, 12), torch.tensor([0.3], dtype=torch.float64))
        assert dead == [0] and tokens.asked == 12 and rows[0].shaping is None


@pytest.mark.soak
@pytest.mark.parametrize("sampling", [preset("qwen3"), Sampling()])
def test_what_is_written_without_a_mark_is_right(loaded: LoadedModel, sampling: Sampling) -> None:
    molecules = [parse_written(smiles) for smiles in RINGS]
    count = sized(2, 8)
    generation = Generation(loaded, molecules, Plan("shaped", sampling=sampling, seed=11, generations=count))
    exact = Generation(loaded, molecules, Plan("exact", sampling=sampling, seed=11, generations=count))
    right = {"shaped": 0, "exact": 0}
    for run in (generation, exact):
        for written in run.run():
            verdict = judge_answer(written.text, run.molecule_of(written.sample_id).mol)
            is_right = verdict.geometry_right is True and verdict.stereo_right is not False
            right[run.lp] += is_right
            if written.guarding is not None and not written.guarding.unmended:
                assert is_right, written.text
    assert right["shaped"] >= 0.8 * len(RINGS) * count and right["shaped"] > right["exact"]


@pytest.mark.soak
def test_the_loops_write_the_same_at_any_size(loaded: LoadedModel) -> None:
    molecules = [parse_written(smiles) for smiles in sized(RINGS[2:], RINGS)]
    for sampling in (Sampling(), Sampling(0.7, top_p=0.8)):
        texts = [
            [written.text for written in Generation(loaded, molecules, replace(plan, sampling=sampling)).run()]
            for plan in (
                Plan("shaped", seed=3, batch_size=1),
                Plan("shaped", seed=3, batch_size=3),
                Plan("shaped", seed=3, backend="hf"),
                Plan("shaped", seed=3, diagnostics=True, batch_size=2),
            )
        ]
        assert all(other == texts[0] for other in texts[1:])


def test_where_nothing_is_checked_it_is_exact(loaded: LoadedModel) -> None:
    molecules = [parse_written(smiles) for smiles in RINGS]
    plan = Plan(seed=5, sampling=Sampling(0.7, top_p=0.8))
    unchecked = replace(plan, lp="shaped", guard=GuardSettings(checks=()))
    texts = [[written.text for written in Generation(loaded, molecules, one).run()] for one in (plan, unchecked)]
    assert texts[0] == texts[1]


def test_a_check_stands_in_the_way_of_a_ring_that_is_too_wide() -> None:
    placed = np.array([[0.0, 0, 0], [4.5, 0, 0], [0, 0, 0]])
    assert failing(MoleculePlaces(parse_written("C1CC1").mol).checks[2], placed)[0] == "bonds"


def test_what_a_dead_end_throws_away_is_counted(loaded: LoadedModel) -> None:
    molecule = parse_written("CC(=O)N1CC[C@H](NC=O)[C@@H](F)C1")
    generation = Generation(loaded, [molecule], Plan("shaped", generations=16, seed=7))
    thrown = [attempt for written in generation.run() if written.guarding for attempt in written.guarding.thrown]
    assert generation.counters.thrown_tokens == sum(len(attempt.steps) for attempt in thrown) > 0
    assert sum(generation.counters.redrawn.values()) == len(thrown)


BINS_IN_BRACKETS = BinFormat.in_brackets(0.05, 9)


def test_a_model_that_never_saw_bins_writes_right_molecules_in_them(loaded: LoadedModel) -> None:
    """Drawn nearly evenly: what it holds for likely are the numbers in a corner of the range."""
    molecules = [parse_written(smiles) for smiles in ("CC=O", "C[C@@H](O)F")]
    plan = Plan("shaped", form=BINS_IN_BRACKETS, sampling=Sampling(20.0), generations=2)
    generation = Generation(loaded, molecules, plan)
    for written in generation.run():
        verdict = judge_answer(
            as_decimals(written.text, BINS_IN_BRACKETS), generation.molecule_of(written.sample_id).mol
        )
        assert verdict.is_usable(written.check.clean)
