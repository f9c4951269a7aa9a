"""Reads the header of a safetensors file: names, types and shapes, without its tensors and without torch.

A truncated file, or one of another kind, is an error here, before anything tries to load it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8
_MOST_HEADER = 100_000_000
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """All tensors of a checkpoint, over all its files."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]
    size_bytes: int

    @property
    def parameters(self) -> int:
        return sum(tensor.count for tensor in self.tensors.values())


def read_header(path: Path) -> Header:
    """The header of one file, whose length has to be what the header says."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if size < _LENGTH_BYTES or not 2 <= length <= min(_MOST_HEADER, size - _LENGTH_BYTES):
                raise _damaged(path, f"it has {size:,} bytes and no whole header")
            document = json.loads(file.read(length))
        return _parsed(path, document, size, _LENGTH_BYTES + length)
    except OSError as error:
        raise FileFormatError(
            f"the weights {shown(path, 200)} cannot be read ({error.strerror})", "Check the path in the model registry"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"its header cannot be read ({type(error).__name__})") from error


def read_headers(folder: Path) -> Header:
    """All safetensors files of a Hugging Face folder, by its index where it has one."""
    if (folder / WEIGHTS).is_file():
        return read_header(folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        what = f"{shown(folder, 200)} has no {WEIGHTS}"
        if others := [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]:
            what = (
                f"{shown(folder, 200)} has {shown(others[0].name)} and no safetensors: pickled weights are not loaded"
            )
        raise FileFormatError(what, "Save the model with save_pretrained(folder), which writes safetensors")
    parts = [read_header(folder / name) for name in _indexed(folder / INDEX)]
    tensors = {name: tensor for part in parts for name, tensor in part.tensors.items()}
    return Header(tensors, {}, sum(part.size_bytes for part in parts))


def _parsed(path: Path, document: dict[str, Any], size: int, start: int) -> Header:
    metadata = document.pop("__metadata__", {})
    tensors = {
        name: TensorInfo(str(about["dtype"]), tuple(map(int, about["shape"]))) for name, about in document.items()
    }
    end = start + max((int(about["data_offsets"][1]) for about in document.values()), default=0)
    if end != size:
        raise _damaged(path, f"it has {size:,} bytes and should have {end:,}")
    for name, about in document.items():
        first, last = map(int, about["data_offsets"])
        bits = _BITS.get(tensors[name].dtype)
        if bits is not None and (last - first) * 8 != tensors[name].count * bits:
            raise _damaged(path, f"the size of {shown(name)} does not fit its shape")
    return Header(tensors, dict(metadata), size)


def _indexed(path: Path) -> list[str]:
    """The file names of an index; each has to lie in the folder itself."""
    try:
        names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, f"it is not an index of weight files ({type(error).__name__})") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise _damaged(path, f"it names {shown(name)}, which is not a file in its folder")
    return names


def _damaged(path: Path, why: str) -> FileFormatError:
    return FileFormatError(f"the weights {shown(path, 200)} are damaged: {why}", "Copy the file again")
