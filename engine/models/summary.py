"""Facts of a registered model without loading it: size, vocabulary, devices with room for it, its card.

Reads headers and configs only. An error of an entry becomes its ``problem``, so that a list shows all entries.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import DriftscopeError, FileFormatError, shown
from engine.models.devices import free_memory
from engine.models.fit import FAMILIES, read_config
from engine.models.headers import Header, read_header
from engine.models.layout import LIVE_IDS, ROWS, SHAPE, VOCAB_ROWS
from engine.models.loading import ROOM, checked, expanded_folder
from engine.models.registry import ModelEntry, load_registry
from engine.models.shapes import ModelShape
from engine.models.shipped import read_verified
from engine.models.tensor_table import BodySizes
from engine.user_files import parsed_json

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """One line of a list of models. Numbers are None where the checkpoint cannot be read; ``problem`` says why."""

    entry: ModelEntry
    family: str | None = None
    vocab_size: int | None = None  # rows of the embedding
    parameters: int | None = None
    size_mb: float | None = None  # of the weights on disk
    is_expanded: bool = False  # whether the cache holds an embedded model's folder
    fits: tuple[str, ...] = ()  # devices with room for it
    problem: str = ""
    warnings: tuple[str, ...] = ()  # of a model that can be loaded

    def as_json(self) -> dict[str, Any]:
        entry = self.entry
        return {
            "alias": entry.alias,
            "step": entry.step,
            "family": self.family,
            "tokenizer": entry.tokenizer,
            "vocab_size": self.vocab_size,
            "parameters": self.parameters,
            "size_mb": self.size_mb,
            "dtype": entry.dtype,
            "decimals": [entry.numbers.least_decimals, entry.numbers.most_decimals],
            "integer_digits": entry.numbers.most_integer_digits,
            "embedded": entry.shipped is not None,
            "expanded": self.is_expanded,
            "fits": list(self.fits),
            "place": str(entry.shipped or entry.folder),
            "card": str(entry.card) if entry.card else None,
            "source": str(entry.source),
            "notes": entry.notes,
            "problem": self.problem,
            "warnings": list(self.warnings),
        }


def summarise(entry: ModelEntry) -> ModelSummary:
    """The entry's summary; ``problem`` is empty where it can be loaded."""
    try:
        return _of_shipped(entry) if entry.shipped is not None else _of_folder(entry)
    except DriftscopeError as error:
        return ModelSummary(entry, problem=str(error))


def body_sizes(entry: ModelEntry) -> BodySizes:
    """What the model's time depends on, from its header or config alone."""
    if entry.shipped is None:
        return read_config(entry.folder).sizes if entry.folder is not None else checked(entry)[2].sizes
    shape = _shape_of(entry.shipped, read_header(entry.shipped))
    numbers = (shape.width, shape.layers, shape.heads, shape.kv_heads, shape.width // shape.heads, shape.inner)
    return BodySizes(shape.family, VOCAB_ROWS[entry.tokenizer], *numbers, True, False, False)


def body_weights(sizes: BodySizes) -> int:
    """Weights of the layers' matrices."""
    heads = sizes.heads + sizes.kv_heads
    return sizes.layers * sizes.width * (2 * heads * sizes.head_dim + 3 * sizes.inner)


def sized(model: str) -> str:
    """``alias:step`` and the size of its layers; the name alone where it is not registered."""
    try:
        return f"{model} ({body_weights(body_sizes(load_registry().find(model))) / 1e6:,.1f} M weights in the layers)"
    except DriftscopeError:
        return model


def _of_shipped(entry: ModelEntry) -> ModelSummary:
    assert entry.shipped is not None
    header = read_header(entry.shipped)
    read_verified(entry.shipped, entry.sha256)
    shape = _shape_of(entry.shipped, header)
    rows = VOCAB_ROWS[entry.tokenizer]
    live = header.tensors[ROWS]
    body = sum(tensor.count for name, tensor in header.tensors.items() if name.startswith("model.")) - live.count
    parameters = body + rows * shape.width
    return ModelSummary(
        entry,
        family=FAMILIES[shape.family],
        vocab_size=rows,
        parameters=parameters,
        size_mb=round(header.size_bytes / 1e6, 2),
        is_expanded=expanded_folder(entry).is_dir(),
        fits=_fits(entry, parameters),
    )


def _shape_of(path: Path, header: Header) -> ModelShape:
    try:
        shape = ModelShape(**parsed_json(header.metadata[SHAPE]))
        if LIVE_IDS not in header.tensors or header.tensors[ROWS].shape[1:] != (shape.width,):
            raise ValueError("its rows are not those of its shape")
    except (ValueError, KeyError, TypeError) as error:
        what = f"{shown(path, 200)} is not a shipped model"
        raise FileFormatError(what, "Register your own checkpoint as `folder`") from error
    return shape


def _of_folder(entry: ModelEntry) -> ModelSummary:
    _, _, config, header, warnings = checked(entry)
    return ModelSummary(
        entry,
        family=config.family,
        vocab_size=config.vocab_rows,
        parameters=header.parameters,
        size_mb=round(header.size_bytes / 1e6, 2),
        fits=_fits(entry, header.parameters),
        warnings=warnings,
    )


def _fits(entry: ModelEntry, parameters: int) -> tuple[str, ...]:
    needed = parameters * DTYPE_BYTES[entry.dtype] * ROOM
    # Torch, which takes seconds to import, is asked only where the GPU driver's tool exists.
    devices = ["cpu", "cuda"] if shutil.which("nvidia-smi") else ["cpu"]
    free = {device: free_memory(device) for device in devices}
    return tuple(device for device, room in free.items() if room is not None and needed <= room)
