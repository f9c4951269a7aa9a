"""The decoder of the codes that `demo-codes` writes, which has the interface of all decoders (`engine.chem.codes`).

Every token of a SMILES looks at all others, in both directions: a place follows from all codes of a text, and the codes
of half a text have none. Five layers of width 64 in plain numpy, some milliseconds a text. It was trained on molecules
of up to 18 heavy atoms; what it makes of larger ones means little.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file

HEADS = 4
_EPSILON = 1e-6

Weights = dict[str, NDArray[np.float32]]


class DemoDecoder:
    """Its weights by name, as ``tools.training.codes`` trains them."""

    def __init__(self, weights: Weights, pieces: Sequence[str]) -> None:
        self._weights = weights
        self._ids = {piece: number for number, piece in enumerate(pieces, start=1)}  # 0: a piece that it was not shown
        self.layers = sum(name.endswith(".qkv") for name in weights)
        self.bits = len(weights["bits"])
        self.codes = 2**self.bits
        self.most_tokens = len(weights["positions"])

    def __call__(self, pieces: Sequence[str], codes: Sequence[int]) -> NDArray[np.float32]:
        """The place of each token in angstrom, [tokens, 3]; those of atoms have a meaning."""
        weights = self._weights
        if len(pieces) > self.most_tokens:
            raise ValueError(f"{len(pieces)} tokens, and it takes {self.most_tokens} at most")
        if (most := max(codes, default=0)) >= self.codes:
            raise ValueError(f"a code {most:,}, and it has {self.codes:,}, from 0 on")
        bits = np.array(codes)[:, None] >> np.arange(self.bits) & 1  # [tokens, bits]
        signs = (2 * bits - 1).astype(np.float32)
        state = weights["pieces"][[self._ids.get(piece, 0) for piece in pieces]] + signs @ weights["bits"]
        state = state + weights["positions"][: len(pieces)]
        for layer in range(self.layers):
            state = state + _attended(_scaled(state) @ weights[f"{layer}.qkv"]) @ weights[f"{layer}.out"]
            state = state + np.maximum(_scaled(state) @ weights[f"{layer}.up"], 0) @ weights[f"{layer}.down"]
        return np.asarray(_scaled(state) @ weights["place"])


def _scaled(state: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(state / np.sqrt((state * state).mean(axis=-1, keepdims=True) + _EPSILON))


def _attended(qkv: NDArray[np.float32]) -> NDArray[np.float32]:
    """[tokens, 3 W] to [tokens, W]."""
    tokens, width = len(qkv), qkv.shape[1] // 3
    parts = qkv.reshape(tokens, 3, HEADS, width // HEADS)
    query, key, value = parts.transpose(1, 2, 0, 3)  # [heads, tokens, W / heads]
    scores = query @ key.transpose(0, 2, 1) / np.float32((width // HEADS) ** 0.5)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.asarray((shares @ value).transpose(1, 0, 2).reshape(tokens, width))


def load(weights: Path) -> DemoDecoder:
    """The decoder of a file of weights."""
    with safe_open(weights, "numpy") as file:
        about: dict[str, Any] = file.metadata() or {}
    arrays = {name: value.astype(np.float32) for name, value in load_file(weights).items()}
    return DemoDecoder(arrays, json.loads(about["pieces"]))
