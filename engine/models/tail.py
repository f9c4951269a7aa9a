"""The tail of the vocabulary: embedding rows that no training text ever names, and their exact place in the loss.

Of 151,673 (Qwen) or 128,330 (LLaMA) token ids the training texts hold some 180 or 1,300. In a full training every other
row begins as N(0, sigma²) noise and, being no target and no input anywhere, receives one kind of gradient only: the
softmax pushes it along -h by its own probability. Those probabilities differ by the row's noise alone, so the rows move
together. What such a training ends with is one common row plus each row's own first noise; so that is what we train and
ship: the common row ``t``, sigma, and a seed for the noise.

The loss of the full model needs the tail's whole mass, sum over rows of exp(h·(t + e)). Over the noise e its
expectation is n · exp(h·t) · E[exp(h·e)], and E[exp(h·e)] = exp(sigma²|h|²/2): one more logit, ``tail_logit``. With
130,000 independent rows and more, the sum lies within a fraction of a percent of its expectation. So junk such as
`amen` is possible in the shipped models just as it is in a fully trained one: nothing of it is put in, or held out.

The noise is made of bits and nothing else: SHAKE-128 of the seed, sixteen bits a number, (ones - 8) · sigma / 2, a
binomial of standard deviation sigma. No random generator and no floating-point function is in it, so every machine
makes the same rows. The difference of its log mass to the normal one's is below |sigma·h|⁴/192 a dimension: nothing.

What this module does not know: which rows are live, and files.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

BITS = 16
_ROWS_AT_A_TIME = 1 << 14


def tail_logit(hidden: Tensor, row: Tensor, sigma: float, count: int) -> Tensor:
    """The log of the tail's expected mass, as one logit. hidden [..., W] and row [W] give [...], in float32."""
    state = hidden.float()
    return state @ row.float() + state.square().sum(-1) * (sigma * sigma / 2) + math.log(count)


def tail_rows(row: NDArray[np.float32], sigma: float, seed: str, count: int) -> NDArray[np.float32]:
    """The tail's rows, [count, W]: the common row and each one's own noise."""
    rows = np.empty((count, len(row)), dtype=np.float32)
    bits = memoryview(hashlib.shake_128(seed.encode()).digest(2 * count * len(row)))
    for start in range(0, count, _ROWS_AT_A_TIME):
        part = rows[start : start + _ROWS_AT_A_TIME]
        drawn = np.frombuffer(bits, dtype="<u2", count=part.size, offset=2 * start * len(row))
        ones = np.bitwise_count(drawn).reshape(part.shape).astype(np.float32)
        np.multiply(ones - BITS / 2, np.float32(sigma / 2), out=part)
        part += row
    return rows
