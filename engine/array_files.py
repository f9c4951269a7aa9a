"""Files of named arrays with a checksum, written aside and renamed into place. Only numpy and Python itself.

A file is one line that names the format, the SHA-256 of all that follows, one line of JSON (``meta`` and each array's
type, shape and compressed size), then the arrays, each compressed with LZMA. The same content gives the same bytes on
the same machine. What this module does not know: what the arrays mean.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import AssetError, FileFormatError
from engine.folders import PART, writing
from engine.user_files import parsed_json

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
    body = read_body(path)
    try:
        meta, entries, position = _header(body)
        arrays = {}
        for entry in entries:
            blob = body[position : position + entry["bytes"]]
            position += entry["bytes"]
            arrays[entry["name"]] = np.frombuffer(lzma.decompress(blob), entry["type"]).reshape(entry["shape"])
    except (ValueError, KeyError, TypeError, lzma.LZMAError) as error:
        raise _damaged(path, f"its content does not fit together ({error})") from error
    return meta, arrays


def read_meta(path: Path) -> Meta:
    """The meta of a file that is whole: the checksum covers all of it, and no array is unpacked."""
    try:
        meta, _, _ = _header(read_body(path))
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"its header does not fit ({error})") from error
    return meta


def read_body(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}", "Make it again") from error
    if not content.startswith(MAGIC):
        raise _damaged(path, "it does not begin as such a file does")
    start = len(MAGIC) + _DIGEST_CHARACTERS + 1
    if hashlib.sha256(content[start:]).hexdigest().encode() + b"\n" != content[len(MAGIC) : start]:
        raise _damaged(path, "its checksum is wrong")
    return content[start:]


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


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Tab-separated, below a line of the columns' names."""
    write_bytes(path, "".join("\t".join(row) + "\n" for row in [columns, *rows]).encode())


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    write_bytes(path, (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Meta:
    try:
        document = parsed_json(path.read_bytes())
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}", "Make it again") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(document, dict):
        raise _damaged(path, "it holds no object")
    return document


def remove_stale(folder: Path, patterns: Iterable[str], kept: Collection[str]) -> None:
    """Remove files of these patterns whose names are not kept, and what killed writers left."""
    stale = [path for pattern in patterns for path in folder.glob(pattern) if path.name not in kept]
    for path in [*stale, *folder.glob(f".*{PART}")]:
        path.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _header(body: bytes) -> tuple[Meta, list[dict[str, Any]], int]:
    line, found, _ = body.partition(b"\n")
    if not found:
        raise ValueError("there is no header")
    header = parsed_json(line)
    return dict(header["meta"]), list(header["arrays"]), len(line) + 1


def _damaged(path: Path, reason: str) -> FileFormatError:
    return FileFormatError(f"{path} is damaged: {reason}", "Make it again")
