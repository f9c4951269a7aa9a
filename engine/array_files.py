"""Files of named arrays with a checksum, written aside and renamed into place. Only numpy and Python itself.

A file is one line that names the format, the SHA-256 of all that follows, one line of JSON (``meta`` and each array's
type, shape and compressed size), then the arrays, each compressed with LZMA. The same content gives the same bytes on
the same machine. What this module does not know: what the arrays mean.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import AssetError, FileFormatError
from engine.folders import writing

Arrays = dict[str, NDArray[Any]]
Meta = dict[str, Any]

MAGIC = b"driftscope arrays 1\n"
_TYPES = {"|u1", "<u2", "<u4", "<i4", "<i8", "<f8"}
_DIGEST_CHARACTERS = 64


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the file, or leave what was there before. ``AssetError`` where the disk does not take it."""
    write_bytes(path, packed_bytes(meta, arrays))


def packed_bytes(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    blobs, entries = [], []
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        if plain.dtype.str not in _TYPES:
            raise ValueError(f"{name} has type {plain.dtype}, known are {sorted(_TYPES)}")
        blob = lzma.compress(plain.tobytes(), preset=0 if plain.dtype.kind == "f" else 6)  # digits of floats stay long
        blobs.append(blob)
        entries.append({"name": name, "type": plain.dtype.str, "shape": list(plain.shape), "bytes": len(blob)})
    header = json.dumps({"meta": dict(meta), "arrays": entries}, sort_keys=True, allow_nan=False)
    body = header.encode() + b"\n" + b"".join(blobs)
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def read_arrays(path: Path) -> tuple[Meta, Arrays]:
    """What was written, or ``FileFormatError`` that names the file: missing, cut, changed, or of another kind."""
    meta, entries, body = _opened(path)
    arrays, position = {}, 0
    for entry in entries:
        blob = lzma.decompress(body[position : position + entry["bytes"]])
        arrays[entry["name"]] = np.frombuffer(blob, entry["type"]).reshape(entry["shape"])
        position += entry["bytes"]
    return meta, arrays


def read_meta(path: Path) -> Meta:
    """The meta of a file that is whole: the checksum covers all of it, and no array is unpacked."""
    return _opened(path)[0]


def _opened(path: Path) -> tuple[Meta, list[dict[str, Any]], bytes]:
    """Its meta, what it says of each array, and the arrays' bytes."""
    try:
        magic, digest, content = path.read_bytes().split(b"\n", 2)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}", "Make it again") from error
    except ValueError:
        magic = digest = content = b""
    if magic + b"\n" != MAGIC:
        raise FileFormatError(f"{path} is damaged: it does not begin as such a file does", "Make it again")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise FileFormatError(f"{path} is damaged: its checksum is wrong", "Make it again")
    line, _, body = content.partition(b"\n")
    header = json.loads(line)
    return header["meta"], header["arrays"], body


def write_bytes(path: Path, content: bytes) -> None:
    """No reader meets half a file, and a full disk leaves nothing behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            file.write(content)
    except OSError as error:
        raise AssetError(
            f"{path} cannot be written: {error.strerror or error}", "Look at the folder and the space left there"
        ) from error
