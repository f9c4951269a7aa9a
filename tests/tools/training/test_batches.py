"""Batches: the texts as they were packed, weighed by kind, drawn the same way after a stop."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from tools.training.batches import Batches, LiveIds, TrainBatch
from tools.training.number_tokens import KINDS
from tools.training.packed import PackedCorpus
from tools.training.recipes import COPYING, PLACING, RECIPES, Stage, recipe_of

STAGE = Stage(1.0, most_atoms=9, decimals=(1, 4))


@pytest.fixture(scope="module")
def corpus(small_packed: Path) -> PackedCorpus:
    return PackedCorpus(small_packed, "qwen3")


@pytest.fixture(scope="module")
def live(corpus: PackedCorpus) -> LiveIds:
    return LiveIds(corpus)


def drawn(batches: Batches, count: int, stage: Stage = STAGE) -> list[TrainBatch]:
    return list(islice((batch for _ in range(count) for batch in batches.draw(stage)), count))


def test_live_ids_are_numbered_in_their_order(corpus: PackedCorpus, live: LiveIds) -> None:
    np.testing.assert_array_equal(live.local(corpus.live_ids), np.arange(len(live)))
    assert live.ids[live.end] == corpus.end
    assert live.local(np.array([0, 151_643 - 1])).tolist() == [-1, -1]  # in no text
    assert live.tail_count == 151_673 - len(live)


def test_batches_hold_whole_texts_of_the_stage(corpus: PackedCorpus, live: LiveIds) -> None:
    texts = {
        tuple(part.tokens(np.array([row]), decimals).ids.tolist())
        for part in corpus.parts
        for row in np.flatnonzero(part.atoms <= STAGE.most_atoms)
        for decimals in STAGE.decimals
    }
    for batch in drawn(Batches(corpus, live, 1000, seed=0), 12):
        assert batch.ids.shape == (batch.weights.shape[0], batch.weights.shape[1] + 1)
        assert batch.ids.numel() <= 1000 + 9 * len(batch.ids)  # padding to a multiple of eight, and one more
        for row, weights in zip(live.ids[batch.ids.numpy()], batch.weights, strict=True):
            ids = row.tolist()
            text = tuple(ids[: ids.index(corpus.end) + 1])
            assert text in texts
            assert set(ids[len(text) :]) <= {corpus.end}
            assert not weights[len(text) - 1 :].any()
            assert weights[len(text) - 2] == 3  # the end token
        assert batch.tokens == int(batch.weights.ne(0).sum()) + prompt_tokens(batch, live, corpus)
        assert batch.texts == len(batch.ids)


def prompt_tokens(batch: TrainBatch, live: LiveIds, corpus: PackedCorpus) -> int:
    tags = corpus.manifest["tokenizers"][corpus.tokenizer]["tags"]
    tag = int(live.local(np.array([tags["[/SMILES]"]]))[0])
    return int((batch.ids == tag).int().argmax(dim=1).sum()) + len(batch.ids)


def test_the_same_seed_draws_the_same_and_a_restored_one_goes_on(corpus: PackedCorpus, live: LiveIds) -> None:
    first, second, other = (Batches(corpus, live, 500, seed) for seed in (0, 0, 1))
    drawn(first, 3)
    drawn(second, 3)
    restored = Batches(corpus, live, 500, seed=7)
    restored.restore(first.state())
    expected = drawn(second, 4)
    for batches in (first, restored):
        assert all(torch.equal(a.ids, b.ids) for a, b in zip(drawn(batches, 4), expected, strict=True))
    assert not all(torch.equal(a.ids, b.ids) for a, b in zip(drawn(other, 4), expected, strict=True))


def test_a_training_in_canonical_order_draws_no_other(corpus: PackedCorpus, live: LiveIds) -> None:
    canonical = {
        tuple(live.local(part.tokens(np.array([row]), 1).ids).tolist())
        for part in corpus.parts
        for row in np.flatnonzero(part.is_canonical)
    }
    stage = Stage(1.0, most_atoms=9, decimals=(1,))

    def of_order(*, canonical_only: bool) -> list[bool]:
        batches = drawn(Batches(corpus, live, 500, seed=0, canonical=canonical_only), 4, stage)
        texts = [
            (row, int((mask != 0).nonzero()[-1])) for b in batches for row, mask in zip(b.ids, b.weights, strict=True)
        ]
        return [tuple(row[: last + 2].tolist()) in canonical for row, last in texts]

    assert all(of_order(canonical_only=True))
    assert 0.2 < np.mean(of_order(canonical_only=False)) < 0.8


def test_numbers_that_decide_a_hand_count_more(corpus: PackedCorpus, live: LiveIds) -> None:
    stage = Stage(1.0, most_atoms=9, decimals=(4,))
    weights = torch.cat(
        [batch.weights[batch.numbers] for batch in drawn(Batches(corpus, live, 1000, seed=0), 4, stage)]
    )
    assert sorted(set(weights.tolist())) == [0.25, 0.5, 3.0], "a late digit decides nothing"
    assert 0.02 < float((weights == 3).float().mean()) < 0.4
    others = torch.cat(
        [batch.weights[~batch.numbers] for batch in drawn(Batches(corpus, live, 1000, seed=0), 4, stage)]
    )
    assert sorted(set(others.tolist())) == [0.0, 3.0]  # prompts and padding, copies


def test_few_texts_still_make_a_batch(corpus: PackedCorpus, live: LiveIds) -> None:
    few = Stage(1.0, most_atoms=4, decimals=(1,))
    assert drawn(Batches(corpus, live, 1_000_000, seed=0), 1, few)[0].texts >= 1


def test_weights_say_that_structure_counts_most() -> None:
    for weights in (COPYING, PLACING):
        of_kind = dict(zip(KINDS, weights.by_kind().tolist(), strict=True))
        assert of_kind["prompt"] == 0
        assert of_kind["structure"] == weights.structure >= 2 * of_kind["integer"]
        assert of_kind["end"] == 3
        assert of_kind["integer"] == of_kind["decimal_2"] == weights.digits
        assert of_kind["decimal_4"] < of_kind["decimal_1"]


@pytest.mark.parametrize("alias", RECIPES)
def test_numbers_weigh_more_once_copies_are_right(alias: str) -> None:
    weights = [stage.weights for stage in recipe_of(alias).stages]
    assert weights == [COPYING] * (len(weights) - 1) + [PLACING]


@pytest.mark.parametrize("alias", RECIPES)
def test_a_recipe_ends_with_what_its_model_shall_write(alias: str) -> None:
    recipe = recipe_of(alias)
    assert recipe.stages[-1].decimals == (4,)
    assert recipe.stages[-1].until == 1.0
    assert [stage.until for stage in recipe.stages] == sorted(stage.until for stage in recipe.stages)
    assert recipe.stage(0.0) == recipe.stages[0]
    assert recipe.stage(1.0) == recipe.stages[-1]


def test_the_learning_rate_rises_stays_and_falls() -> None:
    recipe = recipe_of("demo-qwen")
    rates = [recipe.rate(share) for share in (0.0, 0.01, 0.02, 0.5, 0.65, 0.825, 1.0)]
    assert rates == pytest.approx([0.0, 1.5e-3, 3e-3, 3e-3, 3e-3, 1.5e-3, 0.0])


def test_demo_qwen_l3_differs_by_its_tokenizer_alone() -> None:
    """As many texts a step: LLaMA's tokens a text are that much fewer."""
    qwen, other = recipe_of("demo-qwen"), recipe_of("demo-qwen-l3")
    assert (qwen.shape, qwen.stages, qwen.learning_rate, qwen.seed) == (
        other.shape,
        other.stages,
        other.learning_rate,
        other.seed,
    )
    assert other.tokens_a_step / qwen.tokens_a_step == pytest.approx(251 / 326, abs=0.001)
