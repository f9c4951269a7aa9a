"""The bodies of the embedded models, as ``transformers`` configurations, and the file that each ships in."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from safetensors.numpy import save

from engine.models.shipped import LIVE_IDS, ROWS, TAIL_ROW, Shipped, Weights, config_of

INIT_STD = 0.02
"""Standard deviation of every row at the start of training, and so of the tail's noise at its end."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A body. ``family`` is the architecture's name in ``transformers``; the vocabulary is no part of it."""

    family: Literal["qwen3", "llama"]
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    inner: int = 512  # of the gated feed-forward part
    positions: int = 4_096
    rope_theta: float = 10_000.0

    def config(self, vocab_size: int, *, end: int) -> Any:
        from transformers import AutoConfig  # which takes seconds

        return AutoConfig.for_model(**config_of(asdict(self), vocab_size, end))

    def model(self, config: Any) -> Any:
        """A model with fresh weights."""
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_config(config)


def pack(shipped: Shipped) -> bytes:
    about = {
        "format": "driftscope shipped model 1",
        "shape": json.dumps(dict(shipped.shape)),
        "tokenizer": shipped.tokenizer,
        "sigma": repr(shipped.sigma),
        "seed": shipped.seed,
        "about": json.dumps(dict(shipped.about)),
    }
    tensors: Weights = {LIVE_IDS: shipped.live_ids, ROWS: shipped.live_rows, TAIL_ROW: shipped.tail_row}
    return bytes(save({**shipped.body, **tensors}, metadata=about))
