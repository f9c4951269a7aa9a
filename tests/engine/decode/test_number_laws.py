"""The laws of numbers against plain transformers, a softmax and a tree opened token by token, and sampled numbers."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.number_laws import SHARE, BlockLaws, _blocks, number_laws
from engine.decode.plan import DecodeOptions, Plan, Request, Sampling
from engine.decode.scoring import PlainReader, Stored, reader_of, walk
from engine.decode.steps import Counters, Step
from engine.figures.laws import NumberLaw
from engine.lp.driver import Tables
from engine.lp.follower import AutomatonRows
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from tests.support import soaking

MOLECULES = ("CCO", "C[C@H](N)C(=O)O")
MODELS = ("demo-qwen", "demo-llama", "demo-bins")
Cells = dict[int, float]


@functools.cache
def made(name: str) -> tuple[LoadedModel, Generation, list[Stored]]:
    """Stored samples that the model wrote under exact."""
    loaded = load_model(load_registry().find(name), "cpu", "float32")
    generation = Generation(loaded, list(map(parse_smiles, MOLECULES)), Plan("exact", seed=4))
    samples = sorted(generation.run(), key=lambda sample: sample.sample_id)
    return loaded, generation, [generation.stored(sample.sample_id, sample.token_ids) for sample in samples]


@functools.cache
def laws_of(name: str, decimals: int = 1) -> list[list[BlockLaws]]:
    loaded, generation, stored = made(name)
    return number_laws(reader_of(loaded), generation.constraint, stored, decimals=decimals)


def next_p(loaded: LoadedModel, rows: Sequence[Sequence[int]], ids: Sequence[int]) -> np.ndarray[Any, Any]:
    """[rows, ids] by transformers alone: a softmax over these ids behind each row."""
    found = []
    with torch.inference_mode():
        for row in rows:
            logits = loaded.model(torch.tensor([row])).logits[0, -1, list(ids)]
            found.append(logits.double().softmax(dim=-1).numpy())
    return np.array(found)


def in_cells(law: NumberLaw, width: float = 0.1) -> Cells:
    return dict(zip(np.rint(law.low / width).astype(int).tolist(), law.p.tolist(), strict=True))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("decimals", [1, 2])
def test_cells_are_narrow_apart_and_sum_to_one(name: str, decimals: int) -> None:
    _, generation, _ = made(name)
    by_sample = laws_of(name, decimals)
    assert [len(laws) for laws in by_sample] == [molecule.atoms for molecule in generation.molecules]
    for law in (law for blocks in by_sample for block in blocks for law in block.laws):
        assert law.p.sum() + law.rest == pytest.approx(1, abs=1e-6)
        assert law.p.min() >= 0 and 0 <= law.rest <= 1 - SHARE
        assert (law.high - law.low).max() <= (0.1 if name == "demo-bins" else 10.0**-decimals) + 1e-9
        assert (law.low[1:] >= law.high[:-1] - 1e-9).all()


def test_a_law_of_bins_is_a_softmax_of_the_model_over_the_bins() -> None:
    loaded, _, stored = made("demo-bins")
    bins = [loaded.tokenizer.id_of(f"{number:03d}") for number in range(1, 257)]
    assert None not in bins
    for sample, laws in zip(stored, laws_of("demo-bins"), strict=True):
        whole = [*sample.prompt, *sample.answer]
        places = [at for at in range(len(sample.prompt), len(whole)) if whole[at] in bins]
        assert len(places) == 3 * len(laws)
        for number in (0, 4, 8):
            expected = next_p(loaded, [whole[: places[number]]], [int(id_ or 0) for id_ in bins])[0]
            np.testing.assert_allclose(laws[number // 3].laws[number % 3].p, expected, atol=1e-5)


def opened_by_hand(loaded: LoadedModel, before: Sequence[int], least: float) -> tuple[Cells, float]:
    """Of Qwen's tokens: the law of the number that a comma begins, a pass of the whole text for each beginning; and the
    mass of those that were too unlikely to be opened."""
    ids = {text: loaded.tokenizer.encode(text)[0] for text in (*"0123456789", ".", ",", ",-")}
    cells: Counter[int] = Counter()
    left, waiting = 0.0, [("", 1.0, list(before))]
    while waiting:
        text, mass, row = waiting.pop()
        digits = text.lstrip(",-")
        if not text:
            allowed = [",", ",-"]
        elif not digits or "." in digits:
            allowed = list("0123456789")
        elif digits == "0" or len(digits) == 3:
            allowed = ["."]
        else:
            allowed = [*"0123456789", "."]
        if mass < least:
            left += mass
            continue
        for word, p in zip(allowed, next_p(loaded, [row], [ids[word] for word in allowed])[0], strict=True):
            after = text + word
            if "." in after and not after.endswith("."):
                size = int(after.lstrip(",-").replace(".", ""))
                cells[-size - 1 if after.startswith(",-") else size] += mass * p
            else:
                waiting.append((after, mass * p, [*row, ids[word]]))
    return dict(cells), left


@pytest.mark.parametrize(("block", "axis"), [(3, 1), (4, 2), (5, 1)])
def test_a_law_of_decimals_is_the_tree_opened_by_transformers_alone(block: int, axis: int) -> None:
    """Of (3, 1) the x before it has three decimals, so that a fourth may come in place of the comma."""
    loaded, _, stored = made("demo-qwen")
    sample, law = stored[1], laws_of("demo-qwen")[1][block].laws[axis]
    whole = [*sample.prompt, *sample.answer]
    pieces = [loaded.tokenizer.piece(id_) for id_ in whole]
    commas = [at for at, piece in enumerate(pieces) if piece in (",", ",-")]
    expected, left = opened_by_hand(loaded, whole[: commas[2 * block + axis - 1]], 1e-4)
    found = in_cells(law)
    assert left < 0.003 and sum(expected.values()) > 0.99
    for cell in expected.keys() | found.keys():
        assert found.get(cell, 0) == pytest.approx(expected.get(cell, 0), abs=law.rest + left + 1e-5), cell
    assert max(found, key=found.__getitem__) == max(expected, key=expected.__getitem__)


IN_SOAK = [pytest.mark.soak, pytest.mark.skipif(not soaking(), reason="in `make soak` only")]


@pytest.mark.parametrize(("name", "axis"), [("demo-llama", 0), pytest.param("demo-qwen", 1, marks=IN_SOAK)])
def test_numbers_sampled_under_exact_fall_into_the_cells_of_the_law(name: str, axis: int) -> None:
    """2,000 numbers of our own decoding at temperature 1, behind the same text, by a chi-square of their cells."""
    loaded, generation, stored = made(name)
    sample, law = stored[0], laws_of(name, 2)[0][2].laws[axis]
    constraint: Any = generation.constraint
    rows = AutomatonRows(constraint.automaton)
    starts = [starts for _, starts in _blocks(constraint, rows, 0, sample, loaded.positions)]
    start = starts[2][axis]  # where y begins with the comma: it ends x, or x goes on
    place = (start.cell, start.node)
    request = Request(0, 0, (*sample.prompt, *sample.answer[: start.at]), sample.program, 9, place)
    draws = 2_000 if axis == 0 else 2_600  # some go on with x
    requests = [replace(request, sample=number, key=number) for number in range(draws)]
    texts: list[list[str]] = [[] for _ in requests]
    for event in generation.backend.run(requests, DecodeOptions(Sampling(1.0), seed=11, batch_size=256), Counters()):
        if isinstance(event, Step):
            texts[event.sample].append(loaded.tokenizer.piece(event.token_id))
    counts: Counter[int] = Counter()
    for written in texts:
        text = "".join(written)
        if axis and not text.startswith(","):
            continue
        number = re.search(r"(-?)(\d+)\.(\d{1,2})", text)
        assert number is not None, text
        size = int(number[2] + number[3].ljust(2, "0"))
        counts[-size - 1 if number[1] else size] += 1
    total = counts.total()
    assert total >= 2_000
    expected = {cell: p * total / float(law.p.sum()) for cell, p in in_cells(law, 0.01).items()}
    likely = [cell for cell, count in expected.items() if count >= 5]
    assert len(likely) >= 3 and sum(counts[cell] for cell in likely) >= 0.95 * total
    square = sum((counts[cell] - expected[cell]) ** 2 / expected[cell] for cell in likely)
    freedom = len(likely) - 1
    assert (square - freedom) / np.sqrt(2 * freedom) < 4, (square, freedom)


@pytest.mark.parametrize("name", MODELS)
def test_alone_as_together_and_by_a_model_as_it_is(name: str) -> None:
    """A model as it is gives scores of the last tokens alone: of whole texts they took gigabytes."""
    loaded, generation, stored = made(name)
    shapes: list[int] = []
    short = [replace(stored[0], answer=stored[0].answer[: len(stored[0].answer) * 2 // 3])]
    with loaded.model.register_forward_hook(lambda _, given, out: shapes.append(out.logits.shape[:2].numel())):
        (plain,) = number_laws(PlainReader(loaded.model, loaded.positions), generation.constraint, short)
    (alone,) = number_laws(reader_of(loaded), generation.constraint, stored[:1])
    together = laws_of(name)[0]
    assert plain and len(plain) < len(alone) == len(together) and set(shapes) == {1}
    for laws in (plain, alone):
        for block, other in zip(laws, together, strict=False):
            assert (block.block, block.written) == (other.block, other.written)
            for law, expected in zip(block.laws, other.laws, strict=True):
                assert law.mean == pytest.approx(expected.mean, abs=1e-3)
                assert law.spread == pytest.approx(expected.spread, abs=1e-3)


def test_there_is_no_law_behind_a_token_that_exact_does_not_allow() -> None:
    loaded, generation, stored = made("demo-qwen")
    sample = stored[1]
    states = list(walk(Tables.of(generation.constraint.automaton, [sample.program]), torch.tensor([sample.answer])))
    blocks = sample.program.block[[int(state.cell) for state in states[:-1]]]
    at = int(np.flatnonzero(blocks == 3)[0])
    wrong = (*sample.answer[:at], *loaded.tokenizer.encode("amen"), *sample.answer[at + 1 :])
    (laws,) = number_laws(reader_of(loaded), generation.constraint, [replace(sample, answer=wrong)])
    assert [block.block for block in laws] == [0, 1, 2]
