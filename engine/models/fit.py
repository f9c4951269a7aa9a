"""Whether a checkpoint, its config and its tokenizer fit together: checked before anything is loaded.

What this module does not know: whether the weights are any good.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, ModelError, shown
from engine.models.headers import Header
from engine.models.layout import HEAD, ROWS
from engine.text.tokenizers import TextTokenizer

FAMILIES = {"qwen3": "Qwen", "llama": "LLaMA"}
"""Model families by ``model_type`` of config.json."""
TAGS = ("[SMILES]", "[/SMILES]", "[CONFORMER]", "[/CONFORMER]")
MOST_PADDING = 4_096
"""Rows beyond the tokenizer's size; models pad to a multiple of 64 to 1,024."""


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """What the engine reads from a config.json."""

    model_type: str
    vocab_rows: int
    width: int
    is_tied: bool
    ends: tuple[int, ...]  # of config.json and generation_config.json

    @property
    def family(self) -> str:
        return FAMILIES[self.model_type]


def read_config(folder: Path) -> ConfigFacts:
    """The config of a Hugging Face folder; code that it names is never run."""
    document = _json(folder / "config.json")
    model_type = document.get("model_type")
    if model_type not in FAMILIES:
        raise ModelError(
            f"{shown(folder, 200)} has the model type {shown(model_type)}", f"Known are {', '.join(FAMILIES)}"
        )
    generation = folder / "generation_config.json"
    ends = _ends(_json(generation)) if generation.is_file() else ()
    try:
        rows, width = int(document["vocab_size"]), int(document["hidden_size"])
        return ConfigFacts(model_type, rows, width, bool(document.get("tie_word_embeddings")), ends or _ends(document))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{shown(folder / 'config.json', 200)} lacks a number for {error}", "Use the checkpoint's own config"
        ) from error


def check_vocabulary(config: ConfigFacts, tokenizer: TextTokenizer, where: str) -> None:
    """Every id has a row, few rows have no id, the tags are tokens, and the model ends with an end token."""
    rows, size = config.vocab_rows, tokenizer.vocab_size
    if not size <= rows <= size + MOST_PADDING:
        raise ModelError(
            f"{where} has {rows:,} rows and the tokenizer {shown(tokenizer.name)} {size:,} tokens: they do not fit "
            "together",
            "Register the tokenizer that it was trained with",
        )
    missing = [tag for tag in TAGS if tokenizer.id_of(tag) is None]
    if missing:
        raise ModelError(
            f"the tokenizer {shown(tokenizer.name)} of {where} has no token {missing[0]}",
            "Register the tokenizer that it was trained with",
        )
    for end in config.ends:
        if end >= size or end not in tokenizer.added:
            piece = shown(tokenizer.piece(end)) if end < size else "no token"
            raise ModelError(
                f"{where} ends its texts with the id {end}, which is {piece} in the tokenizer {shown(tokenizer.name)}",
                "Correct eos_token_id in its config.json, or name the right tokenizer",
            )


def check_rows(config: ConfigFacts, header: Header, where: str) -> None:
    """The embedding's shape, and the head's, as config.json has them."""
    names = [ROWS] if config.is_tied else [ROWS, HEAD]
    for name in names:
        tensor = header.tensors.get(name)
        if tensor is None:
            raise ModelError(f"{where} has no tensor {name}", "Copy the whole checkpoint again")
        if tensor.shape != (config.vocab_rows, config.width):
            raise ModelError(
                f"{where}: {name} has the shape {list(tensor.shape)}, config.json says "
                f"{[config.vocab_rows, config.width]}",
                "Use config and weights of one checkpoint",
            )


def _ends(document: dict[str, Any]) -> tuple[int, ...]:
    ends = document.get("eos_token_id")
    return tuple(int(end) for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int))


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(
            f"{shown(path, 200)} cannot be read ({error.strerror})", "Correct the folder in the model registry"
        ) from error
    except ValueError as error:
        raise FileFormatError(f"{shown(path, 200)} is not JSON ({error})", "Copy the file again") from error
    if not isinstance(document, dict):
        raise FileFormatError(f"{shown(path, 200)} is not a JSON object", "Copy the file again")
    return document
