"""The guard at work: what it leaves of the model's distribution, and that no backend, batch or limit changes it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.chem.guard import WrongPlace
from engine.decode.guarding import AnswerGuard
from engine.decode.plan import Request
from engine.decode.steps import Counters, Stop
from engine.errors import ConstraintError
from engine.lp_records import GuardSettings, guard_checks
from engine.records import NumberFormat
from tests.engine.decode import reference as ref
from tests.support import of_soak

each_backend = pytest.mark.parametrize("kind", ref.BACKENDS)
DIGIT = NumberFormat(1, 1, 1)
"""Numbers of two digits, so that texts stay short."""


class FirstDigits:
    """Of a block passes what has an x that is not below zero, and below that of the block before it."""

    def __init__(self, *judged: int) -> None:
        self.judged = judged

    def wrong_places(self, positions: np.ndarray, atom: int) -> list[WrongPlace]:
        if atom not in self.judged:
            return []
        before = positions[atom - 1, 0] if atom else 8
        return [] if 0 <= positions[atom, 0] < before else [WrongPlace("bonds", tuple(range(atom + 1))[-2:])]


def guarded(
    smiles: str, guard: Any, settings: GuardSettings | None = None, *, count: int = 1, limit: int | None = None
) -> list[Request]:
    tokenizer, constraint = ref.made("guarded", form=DIGIT)
    requests = ref.requests_of(constraint, tokenizer, [smiles], generations=count, limit=limit)
    shared = AnswerGuard(guard, requests[0].program, tokenizer, settings or GuardSettings())
    return [replace(request, guard=shared) for request in requests]


def run(
    requests: list[Request], model: Any = None, *, kind: str = "fast", counters: Counters | None = None, **given: Any
) -> dict[int, ref.Written]:
    return ref.collected(ref.events_of(guarded_backend(kind, model), requests, counters=counters, **given))


def guarded_backend(kind: str, model: Any = None) -> Any:
    tokenizer, constraint = ref.made("guarded", form=DIGIT)
    return ref.backend_of(kind, model or ref.small_model(), constraint, tokenizer)


def xs(sample: ref.Written) -> list[float]:
    """The first number of each block."""
    tokenizer, _ = ref.made("guarded", form=DIGIT)
    return [float(block.split(",")[0]) for block in tokenizer.decode(sample.ids[:-1]).split("<")[1:]]


def even_model() -> Any:
    """A model that thinks the same whatever it has read, so that its draws are independent."""
    model = ref.fresh_model()
    weight = model.model.embed_tokens.weight.detach()
    model.model.embed_tokens.weight = torch.nn.Parameter(weight[:1].expand_as(weight).clone())
    return model


# --- the distribution -----------------------------------------------------------------------------------------------
@of_soak
def test_with_tries_enough_it_is_rejection_by_block() -> None:
    """Chi-square of the second block's x, by the shares of both blocks without a guard."""
    count, model = 4_000, even_model()
    free = [xs(sample) for sample in run(guarded("CO", FirstDigits(), count=count), model, batch_size=100).values()]
    shares = [{x: times / count for x, times in Counter(column).items()} for column in zip(*free, strict=True)]
    requests = guarded("CO", FirstDigits(0, 1), GuardSettings(60, 0, most_thrown=1e9), count=count)
    kept = Counter(xs(sample)[1] for sample in run(requests, model, batch_size=100).values())
    chances: dict[float, float] = dict.fromkeys(shares[1], 0.0)
    right = {x: share for x, share in shares[0].items() if 0 <= x < 8}
    for x, share in right.items():
        passing = {y: part for y, part in shares[1].items() if 0 <= y < x} or shares[1]  # the last try is kept
        for y, part in passing.items():
            chances[y] += share / sum(right.values()) * part / sum(passing.values())
    assert chi_square_is_likely(kept, chances, count)


def chi_square_is_likely(seen: Counter[float], chances: dict[float, float], count: int) -> bool:
    """The chances are themselves those of as many draws, so twice the usual spread is expected."""
    often = [value for value, chance in chances.items() if chance * count >= 8]
    parts = [(seen[value], chances[value] * count) for value in often]
    parts.append((count - sum(observed for observed, _ in parts), count - sum(expected for _, expected in parts)))
    value = sum((observed - expected) ** 2 / expected for observed, expected in parts if expected > 1)
    freedom = len(parts) - 1
    assert freedom > 4
    return value / 2 < freedom + 4 * (2 * freedom) ** 0.5 + 10


# --- what must not matter -------------------------------------------------------------------------------------------
def test_fast_fixed_shapes_and_generate_write_the_same() -> None:
    requests = guarded("CO", FirstDigits(0, 1), GuardSettings(2, 1, most_thrown=1e9), count=3)
    loose, fixed, plain = (run(requests, kind=kind) for kind in ("fast", "static", "hf"))
    assert loose == fixed == plain
    assert sum(len(sample.backs) for sample in loose.values()) > 5


def test_a_sample_depends_neither_on_its_batch_nor_on_diagnostics_nor_on_short_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = guarded("CO", FirstDigits(0, 1), GuardSettings(most_thrown=1e9), count=3)
    alone = {number: sample for request in requests for number, sample in run([request]).items()}
    assert run(requests, batch_size=2) == run(requests) == alone
    assert run(requests[:1], diagnostics=True) == {0: alone[0]}
    assert len({tuple(sample.ids) for sample in alone.values()}) == 3

    def short(number: int, rows: int) -> None:
        if number == 25:
            raise RuntimeError("out of memory")

    ref.each_pass(monkeypatch, guarded_backend("fast"), short)
    counters = Counters()
    assert run(requests, counters=counters) == alone
    assert counters.notes


# --- limits ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Never:
    """Nothing passes from an atom on."""

    first: int = 0

    def wrong_places(self, positions: np.ndarray, atom: int) -> list[WrongPlace]:
        return [WrongPlace("stereo", tuple(range(atom + 1)))] if atom >= self.first else []


@each_backend
def test_a_guard_that_is_never_met_stops_at_its_limits_and_says_so(kind: str) -> None:
    counters = Counters()
    requests = guarded("COC", Never(1), GuardSettings(2, 1, most_thrown=1e9))
    events = ref.events_of(guarded_backend(kind), requests, counters=counters)
    (sample,) = ref.collected(events).values()
    # Block 1 fails 3 times and goes back to block 0, fails 3 times more, and stays; block 2 is not drawn again.
    assert [back.block for back in sample.backs] == [1, 1, 0, 1, 1]
    assert sample.reason == "end"
    assert counters.redrawn == {"stereo": 5} and counters.thrown_by == {"stereo": counters.thrown_tokens}
    assert counters.tokens == len(sample.ids)
    assert counters.forced_tokens == sum(sample.forced)
    assert counters.thrown_tokens > 0
    stop = events[-1]
    assert isinstance(stop, Stop)
    assert [max(wrong.atoms) for wrong in stop.unmended] == [1, 2]


@each_backend
def test_what_may_be_thrown_away_has_a_limit_of_its_own(kind: str) -> None:
    counters = Counters()
    (sample,) = run(
        guarded("CO", Never(), GuardSettings(500, 0, most_thrown=3.5)), kind=kind, counters=counters
    ).values()
    assert counters.redrawn == {"stereo": 7}, "two blocks, three and a half times"
    assert sample.reason == "end"
    counters = Counters()
    run(guarded("CO", Never(1), GuardSettings(2, 1, most_thrown=1.5)), kind=kind, counters=counters)
    assert counters.redrawn == {"stereo": 2}, "the way back would throw two blocks away, and one is left"


@each_backend
@pytest.mark.parametrize("limit", [12, 18, 30])
def test_the_limit_of_a_sample_counts_what_is_kept(kind: str, limit: int) -> None:
    (sample,) = run(guarded("CO", Never(), GuardSettings(2, 0, most_thrown=1e9), limit=limit), kind=kind).values()
    assert (sample.reason, len(sample.ids)) == ("length", limit)


def test_settings_that_cannot_be_are_refused() -> None:
    for given in ({"retries": -1}, {"back": -1}, {"most_thrown": -0.5}, {"most_thrown": math.nan}):
        with pytest.raises(ConstraintError):
            GuardSettings(**given)
    assert guard_checks("stereo, bonds") == ("bonds", "stereo")
    for names in ("hands", "", "bonds;stereo"):
        with pytest.raises(ConstraintError, match="no check"):
            guard_checks(names)
