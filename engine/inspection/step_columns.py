"""Kept steps as columns of numbers, and where in its text each token stands: its block, its number, its tenth.

Texts are read by their pieces alone: brackets and commas. What this module does not know: which of them are junk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.figures.statistics import Array

Whole = NDArray[np.int64]

PARTS = ("between the blocks", "opening a block", "x", "y", "z", "closing a block", "the end")
TENTHS = tuple(f"{start} to {start + 10} %" for start in range(0, 100, 10))


class StepColumns:
    """Steps of samples as columns, sample by sample. ``key`` is a token's place in ``blocks``: sample and block, -1
    outside of any."""

    def __init__(self, steps: pa.Table, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self.ids, self.sample = np.unique(steps["sample_id"].to_numpy(), return_inverse=True)
        if strangers := [id_ for id_ in self.ids.tolist() if id_ not in rows]:
            what = f"steps are of sample {strangers[0]}, and its run has none of that number"
            raise StoreError(what, "Run or import it again")
        self.rows = [rows[id_] for id_ in self.ids.tolist()]
        ln_p, ln_tempered, self.mask, ln_q = (
            steps[name].to_numpy().astype(np.float64) for name in ("ln_p", "ln_p_tempered", "ln_mass", "ln_q")
        )  # ln_q is NaN where the token was not allowed
        self.forced = steps["forced"].to_numpy().astype(bool)
        self.raw: Array = ln_p - ln_q
        self.tempered: Array = ln_tempered - ln_q
        length = np.bincount(self.sample)[self.sample]
        self.tenth: Whole = np.minimum(10 * steps["pos"].to_numpy() // length, 9)
        block, self.part, self.segment = _places_of(steps["piece"], self.sample)
        self.block_count: Whole = np.zeros(len(self.rows), dtype=np.int64)  # of each sample
        np.maximum.at(self.block_count, self.sample, block + 1)
        width = int(block.max(initial=0)) + 2
        keys, self.key = np.unique(self.sample * width + block + 1, return_inverse=True)
        self.blocks = [(key // width, key % width - 1) for key in keys.tolist()]


def _places_of(pieces: pa.ChunkedArray, sample: Whole) -> tuple[Whole, Whole, Whole]:
    """Of each token its block, -1 outside, its place in ``PARTS``, and the blocks that were closed before it. A comma
    belongs to the number that it ends."""
    encoded = pieces.combine_chunks().fill_null("").dictionary_encode()
    known = encoded.dictionary.to_pylist()
    of_token = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    is_special = np.array([len(piece) > 2 and piece[0] == "<" and piece[-1] == ">" for piece in known], dtype=bool)
    counts = {
        mark: np.array([piece.count(mark) for piece in known], dtype=np.int64)[of_token] * ~is_special[of_token]
        for mark in "<>,"
    }
    first = np.searchsorted(sample, sample)

    def before(mark: str) -> Whole:
        sums = counts[mark].cumsum() - counts[mark]
        found: Whole = sums - sums[first]
        return found

    opened, closed, commas = map(before, "<>,")
    is_inside = opened > closed
    keys, key = np.unique(sample * (closed.max(initial=0) + 1) + closed, return_inverse=True)
    begins = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(begins, key[is_inside], commas[is_inside])
    number = np.clip(commas - begins[key], 0, 2)
    choices = [is_special[of_token], is_inside & (counts[">"] > 0), is_inside, counts["<"] > 0]
    part = np.select(choices, [PARTS.index("the end"), PARTS.index("closing a block"), 2 + number, 1], 0)
    return np.where(is_inside | (part == 1), closed, -1), part, closed


def by_code(codes: Whole, values: Array, count: int) -> Array:
    """The sum of the values of each code, 0 to ``count`` - 1."""
    return np.bincount(codes, values, count).astype(np.float64)
