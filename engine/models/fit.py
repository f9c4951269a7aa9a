"""Whether a checkpoint, its config and its tokenizer fit together: checked before anything is loaded.

What this module does not know: whether the weights are any good.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, ModelError, shown
from engine.models.headers import Header
from engine.models.layout import HEAD
from engine.models.tensor_table import FIX_PAIR, BodySizes, check_tensors
from engine.text.tokenizers import TextTokenizer
from engine.user_files import parsed_json, read_regular

FAMILIES = {"qwen3": "Qwen", "llama": "LLaMA"}
"""Model families by ``model_type`` of config.json."""
TAGS = ("[SMILES]", "[/SMILES]", "[CONFORMER]", "[/CONFORMER]")
MOST_PADDING = 4_096
"""Rows beyond the tokenizer's size; models pad to a multiple of 64 to 1,024."""


ATTENTIONS = ("full_attention", "sliding_attention")
"""What ``layer_types`` may name."""


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """What the engine reads from a config.json."""

    sizes: BodySizes
    ends: tuple[int, ...]  # of config.json and generation_config.json
    only_hf: str = ""  # what the fast backend does not compute

    @property
    def model_type(self) -> str:
        return self.sizes.model_type

    @property
    def vocab_rows(self) -> int:
        return self.sizes.vocab_rows

    @property
    def family(self) -> str:
        return FAMILIES[self.model_type]


def read_config(folder: Path) -> ConfigFacts:
    """The config of a Hugging Face folder; code that it names is never run."""
    path = folder / "config.json"
    document = _json(path)
    model_type = document.get("model_type")
    if model_type not in tuple(FAMILIES):  # a list has no hash
        raise ModelError(
            f"{shown(folder, 200)} has the model type {shown(model_type)}", f"Known are {', '.join(FAMILIES)}"
        )
    generation = folder / "generation_config.json"
    ends = _ends(_json(generation)) if generation.is_file() else ()
    sizes = _sizes(document, path)
    return ConfigFacts(sizes, ends or _ends(document), _only_hf(document, sizes.layers, path))


def _sizes(document: dict[str, Any], path: Path) -> BodySizes:
    def number(key: str, default: int | None = None) -> int:
        value = document.get(key)
        value = default if value is None else value
        if type(value) is not int or value < 1:
            raise ModelError(f"{shown(path, 200)} lacks a number for {key!r}", "Use the checkpoint's own config")
        return value

    width, heads = number("hidden_size"), number("num_attention_heads")
    is_qwen = document["model_type"] == "qwen3"
    sizes = BodySizes(
        model_type=document["model_type"],
        vocab_rows=number("vocab_size"),
        width=width,
        layers=number("num_hidden_layers"),
        heads=heads,
        kv_heads=number("num_key_value_heads", 32 if is_qwen and "num_key_value_heads" not in document else heads),
        head_dim=number("head_dim", 128 if is_qwen else width // heads),
        inner=number("intermediate_size"),
        is_tied=bool(document.get("tie_word_embeddings")),
        has_attention_bias=bool(document.get("attention_bias")),
        has_mlp_bias=bool(document.get("mlp_bias")),
    )
    for what, count, by in (
        ("num_attention_heads", heads, sizes.kv_heads),
        ("head_dim", sizes.head_dim, 2),
        *([] if is_qwen else [("hidden_size", width, heads)]),
    ):
        if count % by:
            raise ModelError(f"{shown(path, 200)} says {what} {count}, which is no multiple of {by}", FIX_PAIR)
    return sizes


def _only_hf(document: dict[str, Any], layers: int, path: Path) -> str:
    """What only ``transformers`` computes, in words; ``layer_types`` that do not fit are an error."""
    types = document.get("layer_types")
    window = document.get("sliding_window", 4_096) if document.get("use_sliding_window") else None
    if types is None:
        most = document.get("max_window_layers", 28)
        types = ["sliding_attention"] if window and isinstance(most, int) and most < layers else []
    elif not isinstance(types, list) or len(types) != layers:
        count = f"has {len(types)}" if isinstance(types, list) else "is no list of"
        raise ModelError(f"{shown(path, 200)}: layer_types {count} entries, num_hidden_layers is {layers}", FIX_PAIR)
    elif unknown := [name for name in types if name not in ATTENTIONS]:
        raise ModelError(
            f"{shown(path, 200)}: layer_types names {shown(unknown[0])}", f"Known are {', '.join(ATTENTIONS)}"
        )
    elif "sliding_attention" in types and not window:
        raise ModelError(f"{shown(path, 200)}: layer_types has sliding_attention without a sliding_window", FIX_PAIR)
    rope = document.get("rope_parameters") or document.get("rope_scaling")
    kind = (rope.get("rope_type") or rope.get("type")) if isinstance(rope, dict) else None
    found = {
        "sliding_attention": "sliding_attention" in types,
        "longrope": kind == "longrope",
        f"the activation {shown(document.get('hidden_act'))}": document.get("hidden_act", "silu") != "silu",
    }
    return ", ".join(what for what, is_found in found.items() if is_found)


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


def check_weights(config: ConfigFacts, header: Header, where: str) -> tuple[str, ...]:
    """Refuses weights that are not those of the config; returns what a user has to know of those that are."""
    check_tensors(config.sizes, header, where)
    found = []
    if config.sizes.is_tied and header.has_own_head:
        found.append(
            f"{where}: config.json says tie_word_embeddings true, but the weights have their own {HEAD}, which is used"
        )
    if config.only_hf:
        found.append(f"{where} has {config.only_hf}: only the backend hf runs it")
    return tuple(found)


def _ends(document: dict[str, Any]) -> tuple[int, ...]:
    ends = document.get("eos_token_id")
    return tuple(int(end) for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int))


def _json(path: Path) -> dict[str, Any]:
    try:
        document = parsed_json(read_regular(path))
    except OSError as error:
        raise ModelError(
            f"{shown(path, 200)} cannot be read ({error.strerror})", "Correct the folder in the model registry"
        ) from error
    except ValueError as error:
        raise FileFormatError(f"{shown(path, 200)} is not JSON ({error})", "Copy the file again") from error
    if not isinstance(document, dict):
        raise FileFormatError(f"{shown(path, 200)} is not a JSON object", "Copy the file again")
    return document
