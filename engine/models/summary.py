"""Facts of a registered model: size, vocabulary, devices with room for it, its card.

An embedded one is read without torch. An error of an entry becomes its ``problem``, so that a list shows all entries.
"""

from __future__ import annotations

import math
import shutil
from typing import Any

from engine.errors import DriftscopeError
from engine.models import loading
from engine.models.devices import free_memory
from engine.models.registry import ModelEntry, load_registry
from engine.models.shipped import VOCAB_ROWS, unpack


def summarise(entry: ModelEntry) -> dict[str, Any]:
    """One line of a list of models. Numbers are None where the checkpoint cannot be read; ``problem`` says why."""
    family = rows = parameters = size_mb = None
    is_expanded, fits, problem = False, [], ""
    warnings: tuple[str, ...] = ()
    try:
        if entry.shipped is not None:
            shipped = unpack(entry.shipped, entry.sha256)
            family, rows = loading.FAMILIES[shipped.shape["family"]], VOCAB_ROWS[shipped.tokenizer]
            parameters = rows * len(shipped.tail_row) + sum(weights.size for weights in shipped.body.values())
            is_expanded, files = loading.expanded_folder(entry).is_dir(), [entry.shipped]
        else:
            model = loading.load_outline(entry)
            family, rows, parameters, warnings = model.family, model.vocab_rows, model.parameters, model.warnings
            files = loading.weight_files(loading.model_folder(entry))
        size_mb = round(sum(file.stat().st_size for file in files) / 1e6, 2)
        needed = parameters * (4 if entry.dtype == "float32" else 2) * loading.ROOM
        # Torch, which takes seconds to import, is asked only where the GPU driver's tool exists.
        for device in ["cpu", "cuda"] if shutil.which("nvidia-smi") else ["cpu"]:
            fits += [device] if needed <= (free_memory(device) or 0) else []
    except DriftscopeError as error:
        problem = str(error)
    return {
        "alias": entry.alias,
        "step": entry.step,
        "family": family,
        "tokenizer": entry.tokenizer,
        "vocab_size": rows,  # of the embedding
        "parameters": parameters,
        "size_mb": size_mb,  # of the weights on disk
        "dtype": entry.dtype,
        "decimals": [entry.numbers.least_decimals, entry.numbers.most_decimals],
        "integer_digits": entry.numbers.most_integer_digits,
        "embedded": entry.shipped is not None,
        "expanded": is_expanded,  # whether the cache holds an embedded model's folder
        "fits": fits,  # devices with room for it
        "place": str(entry.shipped or entry.folder),
        "card": str(entry.card) if entry.card else None,
        "source": str(entry.source),
        "notes": entry.notes,
        "problem": problem,
        "warnings": list(warnings),  # of a model that can be loaded
    }


def sized(model: str) -> str:
    """``alias:step`` and the size of its layers; the name alone where it is not registered or cannot be read."""
    try:
        entry = load_registry().find(model)
        files = [entry.shipped] if entry.shipped else loading.weight_files(loading.model_folder(entry))
        shapes = loading.tensor_shapes(files)
    except DriftscopeError:
        return model
    layers = [math.prod(shape) for name, shape in shapes.items() if name.startswith("model.layers.") and len(shape) > 1]
    return f"{model} ({sum(layers) / 1e6:,.1f} M weights in the layers)"
