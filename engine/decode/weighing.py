"""log w of answers under ``shaped``, as they come out of a call: how far its draws are from the model's own.

It is the sum over an answer's tokens of ln p - ln q: p the model's probability at the sampling's temperature, q the one
that the token was drawn with, 1 where it was forced. The store's own figures are in ``inspection/lp_cost``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from engine.decode.samples import Sample
from engine.decode.steps import Diagnosis, Shaping

Read = Callable[[Sequence[Sample]], Iterable[Sequence[Diagnosis]]]
MOST_READ = 4_000
"""Tokens that are read once more for their probabilities; of longer calls log w is known with diagnostics alone."""


def log_ws(samples: Sequence[Sample], read: Read) -> dict[int, float | None]:
    """By sample; None where the answer has no weight, or its probabilities are not known. ``read`` tells what the model
    thinks at each token of samples that have no diagnoses."""
    weighed = [sample for sample in samples if _shapings(sample) is not None]
    known: dict[int, Sequence[Diagnosis]] = {sample.sample_id: sample.diagnoses for sample in weighed}
    unread = [sample for sample in weighed if not sample.diagnoses]
    if unread and sum(sample.tokens for sample in unread) <= MOST_READ:
        known |= zip([sample.sample_id for sample in unread], read(unread), strict=True)
    return {sample.sample_id: _log_w(known.get(sample.sample_id, ()), _shapings(sample)) for sample in samples}


def _shapings(sample: Sample) -> dict[int, Shaping] | None:
    """Of an answer that was written in one go, from its start to its end."""
    guarding = sample.guarding
    if guarding is None or guarding.shapings is None or guarding.figures["log_weight"] is None:
        return None
    return dict(guarding.shapings)


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
