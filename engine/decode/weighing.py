"""log w of answers under ``shaped``, as they come out of a call: how far its draws are from the model's own.

It is the sum over an answer's tokens of ln p - ln q: p the model's probability at the sampling's temperature, q the one
that the token was drawn with, 1 where it was forced. The store's own figures are in ``inspection/lp_cost``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from engine.decode.samples import Sample
from engine.decode.steps import Diagnosis, Shaping

if TYPE_CHECKING:
    from engine.decode.generation import Generation

MOST_READ = 4_000
"""Tokens that are read once more for their probabilities; of longer calls log w is known with diagnostics alone."""


def log_ws(generation: Generation) -> dict[int, float | None]:
    """By sample; None where the answer has no weight, or its probabilities are not known."""
    weighed = [sample for sample in generation.samples if _shapings(sample) is not None]
    known: dict[int, Sequence[Diagnosis]] = {sample.sample_id: sample.diagnoses for sample in weighed}
    unread = [sample for sample in weighed if not sample.diagnoses]
    if unread and sum(sample.tokens for sample in unread) <= MOST_READ:
        known |= zip([sample.sample_id for sample in unread], _read(generation, unread), strict=True)
    return {
        sample.sample_id: _log_w(known.get(sample.sample_id, ()), _shapings(sample)) for sample in generation.samples
    }


def _shapings(sample: Sample) -> dict[int, Shaping] | None:
    """Of an answer that was written in one go, from its start to its end."""
    guarding = sample.guarding
    if guarding is None or guarding.shapings is None or guarding.figures["log_weight"] is None:
        return None
    return dict(guarding.shapings)


def _read(generation: Generation, samples: Sequence[Sample]) -> Iterator[Sequence[Diagnosis]]:
    from engine.decode.body import Body
    from engine.decode.scoring import score

    loaded = generation.loaded
    stored = [generation.stored(sample.sample_id, sample.token_ids) for sample in samples]
    scored = score(
        Body(loaded.model, loaded.positions),
        generation.constraint,
        stored,
        loaded.tokenizer.vocab_size,
        candidates=0,
        sampling=generation.plan.sampling,
    )
    return (one.diagnoses for one in scored)


def _log_w(diagnoses: Sequence[Diagnosis], shapings: dict[int, Shaping] | None) -> float | None:
    if not diagnoses or shapings is None:
        return None
    parts = []
    for pos, diagnosis in enumerate(diagnoses):
        ln_q = shapings[pos].ln_q if pos in shapings else diagnosis.ln_q
        if diagnosis.ln_p_tempered is None or ln_q is None:
            return None
        parts.append(diagnosis.ln_p_tempered - ln_q)
    return math.fsum(parts)
