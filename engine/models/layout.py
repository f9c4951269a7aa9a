"""Names inside weight files, and how many rows a tokenizer's models have: what readers agree on, without torch."""

from __future__ import annotations

ROWS = "model.embed_tokens.weight"
"""The embedding, as ``transformers`` names it; in a shipped file its live rows only."""
HEAD = "lm_head.weight"
LIVE_IDS = "live.ids"
TAIL_ROW = "tail.row"
SHAPE = "shape"
"""Metadata of a shipped file: its body's shape as JSON."""
VOCAB_ROWS = {"qwen3": 151_936, "llama3": 128_330}
"""Rows of the embedding by tokenizer: Qwen's models pad theirs."""
