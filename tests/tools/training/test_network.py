"""What is trained: batches of the packed texts, and a loss that is that of the full vocabulary of what ships."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM

from engine.models.shipped import expand, tail_rows
from tools.training.batches import Batches, LiveIds, TrainBatch
from tools.training.checkpoint import save
from tools.training.network import Network, optimisers, tail_logit
from tools.training.packed import PackedCorpus
from tools.training.recipes import RECIPES, Stage
from tools.training.shapes import ModelShape
from tools.training.ship import shipped_from

SMALL = ModelShape("qwen3", 32, 1, 2, 1, 48)


@pytest.fixture(scope="module")
def corpus(small_packed: Path) -> PackedCorpus:
    return PackedCorpus(small_packed, "qwen3")


@pytest.fixture(scope="module")
def batch(corpus: PackedCorpus) -> TrainBatch:
    return next(Batches(corpus, LiveIds(corpus), 1000, seed=0).draw(Stage(1.0, 9, (2,))))


def network(corpus: PackedCorpus, shape: ModelShape = SMALL, seed: int = 0) -> Network:
    live = LiveIds(corpus)
    return Network(shape, len(live), live.end, live.tail_count, seed)


def test_the_loss_is_that_of_the_expanded_model(
    corpus: PackedCorpus, small_packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained: 100 live rows and one logit. Shipped: 151,673 rows. The same cross-entropy to a thousandth of a nat."""
    monkeypatch.setitem(RECIPES, "demo-qwen", replace(RECIPES["demo-qwen"], shape=SMALL))
    net = network(corpus)
    with torch.no_grad():
        net.tail_row.normal_(0, 0.05)
    save(tmp_path / "c", net.weights(), {**STATE, "alias": "demo-qwen"}, torch.float32)
    (tmp_path / "full").mkdir()
    expand(shipped_from(tmp_path / "c", small_packed), tmp_path / "full")
    full = AutoModelForCausalLM.from_pretrained(str(tmp_path / "full"))
    live = torch.from_numpy(LiveIds(corpus).ids)
    batch = next(Batches(corpus, LiveIds(corpus), 200, seed=0).draw(Stage(1.0, 9, (2,))))
    with torch.no_grad():
        ours = net.losses(net.body, batch, torch.float32)
        logits = full(live[batch.ids[:, :-1]]).logits[..., :151_673]
        nats = functional.cross_entropy(logits.flatten(0, 1), live[batch.ids[:, 1:]].flatten(), reduction="none")
    weights = batch.weights.flatten()
    torch.testing.assert_close(ours.total, (nats * weights).sum() / weights.sum(), atol=1e-3, rtol=0)
    torch.testing.assert_close(ours.structure, nats[(weights > 0) & ~batch.numbers.flatten()].mean(), atol=2e-3, rtol=0)
    torch.testing.assert_close(ours.numbers, nats[batch.numbers.flatten()].mean(), atol=2e-3, rtol=0)


STATE = {"tokens": 1, "texts": 1, "steps": 1, "spent_s": 1.0, "hardware": [], "recipe": ""}


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_every_weight_is_trained_and_the_loss_falls(corpus: PackedCorpus, batch: TrainBatch, kind: str) -> None:
    net = network(corpus)
    before = {name: value.clone() for name, value in net.weights().items()}
    chosen = optimisers(net, 3e-3, 0.01, kind)
    count = sum(
        weight.numel() for optimiser in chosen for group in optimiser.param_groups for weight in group["params"]
    )
    assert count == sum(weight.numel() for weight in net.parameters())
    losses = []
    for _ in range(20):
        loss = net.losses(net.body, batch, torch.float32)
        loss.total.backward()
        for optimiser in chosen:
            optimiser.step()
            optimiser.zero_grad()
        losses.append(loss.total.item())
    assert losses[-1] < 0.8 * losses[0]
    assert all(not torch.equal(value, before[name]) for name, value in net.weights().items())


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_the_tails_logit_is_the_mass_of_its_rows(scale: float) -> None:
    """What training sees as one logit is what the softmax over all expanded rows sees."""
    random = np.random.default_rng(1)
    row = random.normal(0, 0.1, 64).astype(np.float32)
    rows = torch.from_numpy(tail_rows(row, 0.02, "mass", 130_000))
    hidden = torch.from_numpy(random.normal(0, scale, (5, 64)).astype(np.float32))
    exact = torch.logsumexp((hidden @ rows.T).double(), dim=-1)
    expected = tail_logit(hidden, torch.from_numpy(row), 0.02, len(rows))
    torch.testing.assert_close(expected.double(), exact, atol=0.01, rtol=0)


STAGE = Stage(1.0, most_atoms=9, decimals=(1, 4))


@pytest.fixture(scope="module")
def live(corpus: PackedCorpus) -> LiveIds:
    return LiveIds(corpus)


def drawn(batches: Batches, count: int, stage: Stage = STAGE) -> list[TrainBatch]:
    return list(islice((batch for _ in range(count) for batch in batches.draw(stage)), count))


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
