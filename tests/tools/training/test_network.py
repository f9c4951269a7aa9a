"""What is trained, against what is shipped: the loss is that of the full vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM

from engine.errors import FileFormatError
from engine.models.shipped import expand, tail_rows
from tools.training import checkpoint
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


def test_padding_changes_nothing(corpus: PackedCorpus, batch: TrainBatch) -> None:
    net = network(corpus)
    ids = functional.pad(batch.ids, (0, 16), value=LiveIds(corpus).end)
    padded = TrainBatch(
        ids, functional.pad(batch.weights, (0, 16)), functional.pad(batch.numbers, (0, 16)), batch.tokens
    )
    with torch.no_grad():
        a, b = (net.losses(net.body, one, torch.float32).total for one in (batch, padded))
    torch.testing.assert_close(a, b)


def test_half_precision_is_near(corpus: PackedCorpus, batch: TrainBatch) -> None:
    net = network(corpus)
    with torch.no_grad():
        exact, half = (net.losses(net.body, batch, dtype).total for dtype in (torch.float32, torch.bfloat16))
    torch.testing.assert_close(exact, half, rtol=0.01, atol=0)


def test_weights_come_back_and_misfits_are_refused(corpus: PackedCorpus, batch: TrainBatch) -> None:
    one, other = network(corpus), network(corpus, seed=1)
    other.load_weights(one.weights())
    with torch.no_grad():
        a, b = (net.losses(net.body, batch, torch.float32).total for net in (one, other))
    assert torch.equal(a, b)
    with pytest.raises(ValueError, match="unexpected"):
        other.load_weights({**one.weights(), "more": torch.zeros(1)})
    with pytest.raises(ValueError, match="missing"):
        other.load_weights({"tail.row": one.tail_row})


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save(path, {"a": torch.zeros(3)}, STATE, torch.float16)
    weights, state = checkpoint.load(path)
    assert (weights["a"].dtype, state) == (torch.float32, STATE)
    content = path.read_bytes()
    for damaged in (content[:-1], b"", b"no safetensors"):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"is no checkpoint that can be read \("):
            checkpoint.load(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


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
