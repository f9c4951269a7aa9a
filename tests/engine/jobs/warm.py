"""Imported once by the process that others are forked from: what takes each process a second of its own otherwise."""

from __future__ import annotations

import transformers.models.qwen3.modeling_qwen3  # noqa: F401 - imported for its time

from engine.lp.vocabulary import vocabulary_of
from engine.text.tokenizers import load_tokenizer
from tests.engine.jobs import small_runs

vocabulary_of(load_tokenizer("qwen3"))
MOLECULES = small_runs.molecules(8)
