"""The bodies of the embedded models, as ``transformers`` configurations. Needs torch and transformers only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # it takes seconds to import
    from transformers import PreTrainedConfig, PreTrainedModel

Family = Literal["qwen3", "llama"]
_MOST_SIZE = 2**31
INIT_STD = 0.02
"""Standard deviation of every row at the start of training, and so of the tail's noise at its end."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A body. ``family`` is the architecture's name in ``transformers``; the vocabulary is no part of it."""

    family: Family
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    inner: int = 512  # of the gated feed-forward part
    positions: int = 4_096
    rope_theta: float = 10_000.0

    def __post_init__(self) -> None:
        if self.family not in ("qwen3", "llama"):
            raise ValueError(f"family must be qwen3 or llama, got {self.family!r}")
        numbers = [getattr(self, name) for name in ("width", "layers", "heads", "kv_heads", "inner", "positions")]
        if not all(type(number) is int and 1 <= number < _MOST_SIZE for number in numbers):
            raise ValueError("a size is no whole number from 1 on")
        if self.width % self.heads or self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads of {self.kv_heads} keys do not fit a width of {self.width}")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def config(self, vocab_size: int, *, end: int, begin: int | None = None) -> PreTrainedConfig:
        """``end`` closes an answer, and fills rows that have ended."""
        from transformers import LlamaConfig, Qwen3Config

        kind = Qwen3Config if self.family == "qwen3" else LlamaConfig
        return kind(
            vocab_size=vocab_size,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.width // self.heads,
            intermediate_size=self.inner,
            max_position_embeddings=self.positions,
            rope_parameters={"rope_type": "default", "rope_theta": self.rope_theta},
            tie_word_embeddings=True,
            initializer_range=INIT_STD,
            rms_norm_eps=1e-6,
            attention_bias=False,
            bos_token_id=begin,
            eos_token_id=end,
            pad_token_id=end,
        )

    def model(self, config: PreTrainedConfig) -> PreTrainedModel:
        """A model with fresh weights."""
        from transformers import LlamaForCausalLM, Qwen3ForCausalLM

        kind: Any = Qwen3ForCausalLM if self.family == "qwen3" else LlamaForCausalLM
        model: PreTrainedModel = kind(config)
        return model
