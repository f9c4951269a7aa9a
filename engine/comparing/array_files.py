"""Files of named arrays and what is said of them: safetensors in an xz stream, which has a checksum.

The same content gives the same bytes.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from engine.errors import AssetError, FileError
from engine.user_files import replacing

Arrays = dict[str, NDArray[Any]]
Meta = dict[str, Any]
META = "meta"
"""The array that has the meta, as bytes of JSON."""


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the file, or leave what was there before. ``AssetError`` where the disk does not take it."""
    write_bytes(path, packed_bytes(meta, arrays))


def packed_bytes(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    packed_meta = np.frombuffer(json.dumps(dict(meta), sort_keys=True, allow_nan=False).encode(), np.uint8)
    named = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return lzma.compress(save({**named, META: packed_meta}), preset=1)


def read_arrays(path: Path) -> tuple[Meta, Arrays]:
    """What was written, or ``FileError`` that names the file: missing, cut, changed, or of another kind."""
    try:
        arrays = load(lzma.decompress(path.read_bytes()))
        return json.loads(arrays.pop(META).tobytes()), arrays
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}", "Make it again") from error
    except (ValueError, KeyError, lzma.LZMAError, SafetensorError) as error:
        raise FileError(f"{path} is damaged: {error}", "Make it again") from error


def write_bytes(path: Path, content: bytes) -> None:
    """No reader meets half a file, and a full disk leaves nothing behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise AssetError(
            f"{path} cannot be written: {error.strerror or error}", "Look at the folder and the space left there"
        ) from error
