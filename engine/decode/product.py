"""A product with one weight matrix, laid out for the processor where that pays.

On a CPU torch gives a float32 product of few rows to a library that takes 3 to 6 times as long on some processors as
reading the weights takes. oneDNN's kernels do not, and read a copy of the weights in the order that they need
(*packed*). A small matrix stays as it is: there one more call costs more than a better order saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine.models.devices import free_memory

MKLDNN: Any = torch.ops.mkldnn
MOST_MEMORY = 0.5
"""Of what is free: packing takes a copy."""
LEAST_PACKED = 3 * 2**17
"""Weights from which on a matrix is packed: one of 1,024 x 256 gains nothing for a single row yet."""
MEANT_ROWS = 8
"""The number of rows that the order is chosen for; it hardly matters which."""


class Product:
    """``x W^T + b``. A packed one keeps the weight in its own order alone."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, is_packed: bool = False) -> None:
        self.weight: Any = MKLDNN._reorder_linear_weight(weight, MEANT_ROWS) if is_packed else weight
        self.bias, self.is_packed = bias, is_packed

    def __call__(self, state: Tensor) -> Tensor:
        """[N, W] to [N, O]."""
        if self.is_packed:
            product: Tensor = MKLDNN._linear_pointwise(state, self.weight, self.bias, "none", [], "")
            return product
        return functional.linear(state, self.weight, self.bias)

    def added(self, hidden: Tensor, state: Tensor) -> Tensor:
        """``hidden`` [N, O] and the product, in one operation where that is possible."""
        if self.is_packed:
            total: Tensor = MKLDNN._linear_pointwise(state, hidden, self.weight, self.bias, "add")
            return total
        if self.bias is None:
            return torch.addmm(hidden, state, self.weight.t())
        return hidden + functional.linear(state, self.weight, self.bias)


def has_room(weights: Sequence[Tensor], taken: int = 0) -> bool:
    """Whether a CPU computes packed ones of this type, and has room for copies of these beside ``taken`` bytes of them.

    Copies of one model take half at most of what was free before the first of them.
    """
    first = weights[0]
    if first.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if not hasattr(MKLDNN, "_linear_pointwise"):
        return False
    is_computed = first.dtype == torch.float32 or (first.dtype == torch.bfloat16 and MKLDNN._is_mkldnn_bf16_supported())
    free, copied = free_memory("cpu"), taken + sum(weight.nbytes for weight in weights)
    return is_computed and (free is None or copied <= MOST_MEMORY * (free + taken))
