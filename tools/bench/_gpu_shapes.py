"""The models of ``bench.gpu``: the reports' two, as far as they are known, and toys of them. Weights are random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

POSITIONS = 4_096


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's body and its vocabulary; ``reported`` is the reports' launches over their passes."""

    name: str
    family: Literal["qwen3", "llama"]
    tokenizer: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    inner: int
    reported: tuple[int, int]

    def model(self, rows: int, end: int, device: torch.device, dtype: torch.dtype) -> Any:
        """With random weights; head and embedding are one."""
        from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

        config_kind: Any = Qwen3Config if self.family == "qwen3" else LlamaConfig
        model_kind: Any = Qwen3ForCausalLM if self.family == "qwen3" else LlamaForCausalLM
        config = config_kind(
            vocab_size=rows,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_width,
            intermediate_size=self.inner,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            attention_bias=False,
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=end,
        )
        torch.manual_seed(0)
        with device:
            return model_kind(config).to(dtype).eval()


SHAPES = (
    Shape("Qwen3-0.6B", "qwen3", "qwen3", 1_024, 28, 16, 8, 128, 3_072, (2_912_920, 1_730)),
    # Of the reports' LLaMA only its 380 million parameters are known; 16 layers fit its launches a pass.
    Shape("LLaMA 380M", "llama", "llama3", 1_024, 16, 16, 8, 64, 4_096, (961_645, 1_292)),
)
TOYS: Sequence[Shape] = [
    Shape(f"a toy of {shape.name}", shape.family, shape.tokenizer, 64, 2, 4, 2, 32, 128, shape.reported)
    for shape in SHAPES
]
