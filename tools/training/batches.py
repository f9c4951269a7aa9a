"""Batches for training: texts drawn by the recipe's stage, of like length, in the model's own small numbering.

The model is trained on the ids that occur, numbered 0 to n - 1 in their order. A batch is padded on the right with
text ends without weight; under causal attention they change no other position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tools.training.packed import DECIMAL_1, MOST_DECIMALS, SIGN, PackedCorpus
from tools.training.recipes import Stage

POOL = 768
"""Texts that are drawn together; sorted by length they make batches with next to no padding."""
ROUND = 8


@dataclass(frozen=True, slots=True)
class TrainBatch:
    """``ids[:, 1:]`` are the targets of ``ids[:, :-1]``; what tells of a target is at its place."""

    ids: Tensor  # int64 [B, T]
    weights: Tensor  # float32 [B, T - 1]
    numbers: Tensor  # bool [B, T - 1] whether it is part of a number
    tokens: int  # without padding

    @property
    def texts(self) -> int:
        return len(self.ids)


class LiveIds:
    """The ids that the training texts hold, and their numbers in the model."""

    def __init__(self, corpus: PackedCorpus) -> None:
        self.ids = corpus.live_ids.astype(np.int64)  # sorted
        self.vocab_size = corpus.vocab_size
        self.end = int(np.searchsorted(self.ids, corpus.end))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tail_count(self) -> int:
        return self.vocab_size - len(self)

    def local(self, ids: NDArray[np.integer]) -> NDArray[np.int64]:
        """Numbers of these ids; -1 where one is not live."""
        index = np.searchsorted(self.ids, ids).clip(max=len(self) - 1)
        return np.where(self.ids[index] == ids, index, -1)


class Batches:
    """Draws texts without end. ``state`` and ``restore`` carry the generator over a stop."""

    def __init__(
        self, corpus: PackedCorpus, live: LiveIds, tokens_a_batch: int, seed: int, *, canonical: bool = False
    ) -> None:
        self._corpus = corpus
        self._live = live
        self._canonical = canonical  # draw no text in a random order
        self._tokens = tokens_a_batch
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._shares = np.array([len(part) for part in corpus.parts]) / len(corpus)

    def draw(self, stage: Stage) -> Iterator[TrainBatch]:
        """The batches of one pool."""
        part = self._corpus.parts[int(self._random.choice(len(self._shares), p=self._shares))]
        decimals = stage.decimals[int(self._random.integers(len(stage.decimals)))]
        fits = (part.atoms <= stage.most_atoms) & part.is_within
        fitting = np.flatnonzero(fits & part.is_canonical if self._canonical else fits)
        rows = self._random.choice(fitting, size=min(POOL, len(fitting)), replace=False)
        drawn = part.tokens(rows, min(decimals, MOST_DECIMALS))
        ids = self._live.local(drawn.ids)
        numbers = drawn.kinds >= SIGN
        deciding = drawn.deciding & numbers & (drawn.kinds <= DECIMAL_1)  # no hand hangs on a late digit
        weights = stage.weights.by_kind()[drawn.kinds] * np.where(
            deciding, np.float32(stage.weights.deciding), np.float32(1)
        )
        lengths = np.diff(drawn.starts)
        groups = list(self._groups(np.argsort(lengths, kind="stable"), lengths))
        for index in self._random.permutation(len(groups)):
            group = groups[index]
            width = -(-int(lengths[group].max()) // ROUND) * ROUND + 1
            block = np.full((len(group), width), self._live.end, dtype=np.int64)
            weight = np.zeros((len(group), width), dtype=np.float32)
            number = np.zeros((len(group), width), dtype=np.bool_)
            for row, text in enumerate(group):
                span = slice(int(drawn.starts[text]), int(drawn.starts[text + 1]))
                for rows, values in ((block, ids), (weight, weights), (number, numbers)):
                    rows[row, : lengths[text]] = values[span]
            ids_, weights_, numbers_ = map(torch.from_numpy, (block, weight[:, 1:].copy(), number[:, 1:].copy()))
            yield TrainBatch(ids_, weights_, numbers_, int(lengths[group].sum()))

    def state(self) -> dict[str, object]:
        return dict(self._random.bit_generator.state)

    def restore(self, state: dict[str, object]) -> None:
        self._random.bit_generator.state = state or self._random.bit_generator.state  # a shipped model has none

    def _groups(self, order: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Longest first, as many as fill a batch; less than half a batch at the end is not used, if it is not all."""
        stop = len(order)
        while stop > 0:
            count = max(1, self._tokens // int(lengths[order[stop - 1]]))
            if stop < min(count / 2, len(order)):
                return
            yield order[max(0, stop - count) : stop]
            stop -= count
