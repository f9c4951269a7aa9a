"""A training on disk: weights and state in one safetensors file, written aside and renamed into place.

A stop at any moment leaves the checkpoint before it. The optimiser's moments are not kept: they would triple the file,
and a short warm-up after resuming makes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialized
from torch import Tensor

from engine.comparing.array_files import write_bytes
from engine.errors import FileError
from engine.user_files import parsed_json

STATE = "state"


def save(path: Path, weights: Mapping[str, Tensor], state: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Write the file, or leave what was there before."""
    tensors = {name: value.detach().to("cpu", dtype).contiguous() for name, value in weights.items()}
    write_bytes(path, serialized(tensors, metadata={STATE: json.dumps(dict(state))}))


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights in float32, and the state; also of a shipped model, with what ships of its state."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            state = parsed_json(about.get(STATE) or about["about"])
            return {name: file.get_tensor(name).float() for name in file.keys()}, state  # noqa: SIM118 - no dict
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise FileError(
            f"{path} is no checkpoint that can be read ({error})", "Remove it to begin again, or bring a whole one"
        ) from error
