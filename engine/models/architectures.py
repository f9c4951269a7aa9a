"""What a checkpoint's architecture says before anything of it is loaded: whether it is a causal language model, what
its family is called, and why the backend ``fast`` cannot run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from engine.errors import ModelError, shown
from engine.user_files import parsed_json

FAMILIES = {"qwen3": "Qwen", "llama": "LLaMA"}
"""Model families by ``model_type`` of config.json; any other is called as its class is, such as ``Gemma3``."""
FAST = {"qwen2": "Qwen2", "qwen3": "Qwen3", "llama": "LLaMA", "mistral": "Mistral"}
"""What the backend ``fast`` computes: the same layers, with or without biases and norms of queries and keys."""
OPEN_ENDED = 32_768
"""Positions of a model that names no limit, as those without position embeddings do."""
_CLASS = re.compile(r"(.+?)(?:For|LMHead|Model$)")


def family_of(config: Any) -> str:
    classes = getattr(config, "architectures", None) or [_causal_classes().get(config.model_type, config.model_type)]
    named = _CLASS.match(classes[0])
    return FAMILIES.get(config.model_type) or (named[1] if named else str(config.model_type))


def why_not_fast(config: Any) -> str:
    """One clause, of a config of transformers; empty where ``fast`` runs it."""
    text_config = config.get_text_config()
    if config.model_type not in FAST:
        return f"fast runs {', '.join(FAST.values())}, and this is {family_of(config)}"
    # Mistral has one window for all layers, the others say of each layer what it is.
    window = config.sliding_window if config.model_type == "mistral" else None
    has_window = window is not None and window < positions_of(config)
    if has_window or any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []):
        return "it attends within a sliding window"
    if (text_config.rope_parameters or {}).get("rope_type") == "longrope":  # its rotations depend on a text's length
        return "it scales its rotations by longrope"
    if text_config.hidden_act != "silu":
        return f"its activation is {text_config.hidden_act!r}, not 'silu'"
    return ""


def positions_of(config: Any) -> int:
    """The longest text, prompt and answer together."""
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    return OPEN_ENDED if limit is None else int(limit)


def check_causal(folder: Path) -> None:
    """An error in one line where the folder holds no causal language model of transformers."""
    path = folder / "config.json"
    if not path.is_file():
        fix = "Give a folder as save_pretrained writes it"
        if (folder / "adapter_config.json").is_file():
            fix = "It holds an adapter: merge it into its base model, and save that"
        raise ModelError(f"{shown(folder, 200)} has no config.json", fix)
    try:
        config = parsed_json(path.read_text(encoding="utf-8"))
        kind, classes = config.get("model_type"), config.get("architectures") or []
        if not isinstance(kind, str | None):
            return  # transformers says what is wrong with it
    except (OSError, ValueError, AttributeError):
        return  # transformers says what is wrong with it
    if kind is None:
        fix = "Give a folder as save_pretrained writes it"
        raise ModelError(f"config.json of {shown(folder, 200)} has no model_type", fix)
    causal = _causal_classes()
    if kind not in causal:
        if config.get("auto_map"):
            problem = f"{shown(folder, 200)} needs its own code ({shown(kind)} is not part of transformers)"
            raise ModelError(problem, "Code of a checkpoint is not run: convert it to an architecture of transformers")
        problem = f"{shown(folder, 200)} has the model type {shown(kind)}"
        raise ModelError(problem, "Only causal language models of transformers are run (AutoModelForCausalLM)")
    if isinstance(classes, list) and classes and causal[kind] not in classes:
        problem = f"config.json of {shown(folder, 200)} names {shown(str(classes[0]))}"
        raise ModelError(problem, f"The causal language model of the type {kind} is {causal[kind]}: save that")


def _causal_classes() -> dict[str, str]:
    """The class of a causal language model by ``model_type``."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
