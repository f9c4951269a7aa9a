"""Reads the header of a safetensors file: names, types and shapes, without its tensors and without torch.

A truncated file, or one of another kind, is an error here, before anything tries to load it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown
from engine.models.layout import HEAD, ROWS
from engine.user_files import open_regular, parsed_json, read_regular

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = "model-*.safetensors"
_LENGTH_BYTES = 8
_MOST_DIMENSIONS, _MOST_SIZE = 64, 2**63
_MOST_HEADER = 100_000_000
_MOST_TENSORS = 200_000
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

    @property
    def has_own_head(self) -> bool:
        """A head alone, without an embedding, is the one matrix of a tied pair."""
        return {ROWS, HEAD} <= self.tensors.keys()


def read_header(path: Path) -> Header:
    """The header of one file, whose length has to be what the header says."""
    try:
        size = path.stat().st_size
        with open_regular(path) as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if size < _LENGTH_BYTES or not 2 <= length <= min(_MOST_HEADER, size - _LENGTH_BYTES):
                raise _damaged(path, f"it has {size:,} bytes and no whole header")
            content = file.read(length)
        document = parsed_json(content)
        return _parsed(path, document, size, _LENGTH_BYTES + length)
    except OSError as error:
        raise FileFormatError(
            f"the weights {shown(path, 200)} cannot be read ({error.strerror})", "Check the path in the model registry"
        ) from error
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise _damaged(path, f"its header cannot be read ({type(error).__name__})") from error


def read_headers(folder: Path) -> Header:
    """All safetensors files of a Hugging Face folder, by its index where it has one."""
    shards = {path.name for path in folder.glob(SHARDS)}
    if (folder / WEIGHTS).is_file():
        if shards:
            raise _two_sets(folder, WEIGHTS, shards)
        return read_header(folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        if shards:
            raise FileFormatError(
                f"{shown(folder, 200)} has {len(shards)} of several weight files and no {INDEX}",
                "Copy the index of the same checkpoint",
            )
        what = f"{shown(folder, 200)} has no {WEIGHTS}"
        if others := [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]:
            what = (
                f"{shown(folder, 200)} has {shown(others[0].name)} and no safetensors: pickled weights are not loaded"
            )
        raise FileFormatError(what, "Save the model with save_pretrained(folder), which writes safetensors")
    index = _indexed(folder / INDEX)
    if strangers := shards - set(index.values()):
        raise _two_sets(folder, INDEX, strangers)
    parts: dict[str, Header] = {}
    for name in sorted(set(index.values())):
        parts[name] = read_header(folder / name)
        if sum(len(part.tensors) for part in parts.values()) > _MOST_TENSORS:
            raise _damaged(folder / INDEX, f"its files have over {_MOST_TENSORS:,} tensors")
    files: dict[str, str] = {}
    for file, part in parts.items():
        for name in part.tensors:
            if files.setdefault(name, file) != file:
                raise _damaged(folder / INDEX, f"{shown(name)} is in {shown(files[name])} and in {shown(file)}")
    for name in sorted(index.keys() | files.keys()):
        if index.get(name) != files.get(name):
            by_index, by_header = (shown(by[name]) if name in by else "no file" for by in (index, files))
            raise _damaged(
                folder / INDEX, f"by it {shown(name)} is in {by_index}, by the files' headers in {by_header}"
            )
    tensors = {name: tensor for part in parts.values() for name, tensor in part.tensors.items()}
    return Header(tensors, {}, sum(part.size_bytes for part in parts.values()))


def _two_sets(folder: Path, used: str, others: set[str]) -> FileFormatError:
    return FileFormatError(
        f"{shown(folder, 200)} has two sets of weights: {shown(min(others))} does not belong to {used}",
        "Remove the set that is not meant, and its index",
    )


def _parsed(path: Path, document: dict[str, Any], size: int, start: int) -> Header:
    metadata = document.pop("__metadata__", {})
    if not all(type(text) is str for text in metadata.values()):
        raise TypeError("metadata is no text")
    tensors = {
        name: TensorInfo(str(about["dtype"]), tuple(map(int, about["shape"]))) for name, about in document.items()
    }
    for name, tensor in tensors.items():
        if len(tensor.shape) > _MOST_DIMENSIONS or not all(0 <= size < _MOST_SIZE for size in tensor.shape):
            raise _damaged(path, f"{shown(name)} has a shape that no tensor has")
    end = start + max((int(about["data_offsets"][1]) for about in document.values()), default=0)
    if end != size:
        raise _damaged(path, f"it has {size:,} bytes and should have {end:,}")
    for name, about in document.items():
        first, last = map(int, about["data_offsets"])
        bits = _BITS.get(tensors[name].dtype)
        if bits is not None and (last - first) * 8 != tensors[name].count * bits:
            raise _damaged(path, f"the size of {shown(name)} does not fit its shape")
    return Header(tensors, dict(metadata), size)


def _indexed(path: Path) -> dict[str, str]:
    """File names by tensor of an index; each file has to lie in the folder itself."""
    try:
        index = dict(parsed_json(read_regular(path))["weight_map"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, f"it is not an index of weight files ({type(error).__name__})") from error
    for name in index.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise _damaged(path, f"it names {shown(name)}, which is not a file in its folder")
    return index


def _damaged(path: Path, why: str) -> FileFormatError:
    return FileFormatError(f"the weights {shown(path, 200)} are damaged: {why}", "Copy the file again")
