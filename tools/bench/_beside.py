"""The time of an LP where a larger model does the passes and the small one's tokens, thrown ones too, are replayed.

In every pass a model of the larger shape, with random weights, reads the same tokens of the same rows; what it makes of
them is dropped, and the small model draws. Of the larger output head an LP would read some rows: it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from engine.decode.body import Body, KvCache, TokenLayout
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.models.loading import LoadedModel
from engine.records import Molecule
from tools.bench._measure import figure, note
from tools.bench._sized import Shape

REPLAY_HEAD = "|tokens|thrown away|passes|seconds|in passes of both models|choosing and LP|over exact"


def read_by_both(body: Body, larger: Body) -> None:
    """From here on ``larger`` reads whatever ``body`` reads, into a cache of its own."""
    own, caches = body._run, WeakKeyDictionary[KvCache, KvCache]()

    def run(ids: Tensor, layout: TokenLayout, cache: KvCache) -> Tensor:
        rows = len(cache.keys[0])
        if cache not in caches:
            caches[cache] = KvCache(larger, rows, cache.length)
        elif len(caches[cache].keys[0]) > rows:
            caches[cache].keep(list(range(rows)))  # whose rows these were changes nothing of the time
        larger(ids, layout, caches[cache])
        return own(ids, layout, cache)

    body._run = run


def replayed(loaded: LoadedModel, molecules: Sequence[Molecule], shape: Shape, batch: int) -> list[tuple[str, ...]]:
    """Rows of ``REPLAY_HEAD``: ``exact`` and ``shaped``, once each."""
    config = shape.config(loaded.vocab_rows, end=loaded.tokenizer.end_id or 0)
    config.head_dim = shape.head_dim
    torch.manual_seed(0)
    model: Any = shape.model(config).eval()
    larger = Body(model, loaded.positions)
    rows, exact_s = [], 0.0
    for lp in ("exact", "shaped"):
        generation = Generation(loaded, molecules, Plan(lp, batch_size=batch))
        read_by_both(generation.backend.body, larger)  # type: ignore[union-attr]
        generation.run()
        counters = generation.counters
        seconds = generation.template_s + counters.decode_s
        choosing_s = generation.template_s + counters.sampling_s + counters.constraint_s
        exact_s = exact_s or seconds
        counts = (f"{count:,}" for count in (counters.tokens, counters.thrown_tokens, counters.forward_passes))
        times = (figure(took_s) for took_s in (seconds, counters.forward_s, choosing_s))
        rows.append((lp, *counts, *times, f"{seconds / exact_s:.2f}"))
        note(" | ".join(rows[-1]))
    return rows
