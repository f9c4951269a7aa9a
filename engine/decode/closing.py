"""Where a block is closed by force, and how much of the model's mass wanted to close it or to go on.

An LP that forces the close hides whether the number was complete. The model's own probabilities tell: the mass of all
tokens that begin by closing a block, against that of all which go on with its numbers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.lp.table import NO_ID, Program
from engine.lp.vocabulary import vocabulary_of
from engine.text.tokenizers import TextTokenizer


@dataclass(frozen=True, slots=True, eq=False)
class CloseIds:
    """The tokens that close a block, and those that go on with its numbers, on the model's device."""

    closing: Tensor  # int64 [C]
    going_on: Tensor  # int64 [G]


@functools.lru_cache(maxsize=16)
def close_ids(tokenizer: TextTokenizer, device: torch.device | str = "cpu") -> CloseIds:
    """Closing: ordinary tokens that begin with ``>``. Going on: digits, ``.``, ``,``, ``,-`` and ``-`` alone."""
    vocabulary = vocabulary_of(tokenizer)
    closing = np.array([tokenizer.raw(id_).startswith(b">") for id_ in range(len(vocabulary.digits))])
    going_on = (vocabulary.digits > 0) | (vocabulary.mark > 0)
    ordinary = ~vocabulary.is_special
    return CloseIds(*(torch.from_numpy(np.flatnonzero(flags & ordinary)).to(device) for flags in (closing, going_on)))


def close_mass(raw_log_p: Tensor, closing_ids: Tensor, going_on_ids: Tensor) -> Tensor:
    """[N, 2] the masses of closing and of going on, from the log-probabilities before the LP [N, V]."""
    parts = [raw_log_p[:, ids].double().exp().sum(dim=-1) for ids in (closing_ids, going_on_ids)]
    return torch.stack(parts, dim=1).clamp(max=1)


def closing_cells(program: Program) -> dict[int, int]:
    """The cells that close a block by force, each with its block: the forced one behind the block's last free one."""
    is_free, block = program.forced == NO_ID, program.block
    ends = is_free[:-1] & ~is_free[1:] & (block[:-1] >= 0) & (block[1:] == block[:-1])
    return {cell + 1: int(block[cell]) for cell in np.flatnonzero(ends).tolist()}
