"""Tables that took a model or a judge to make: in the cache folder, by a digest of all that they were made of."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.models.registry import ModelEntry
from engine.paths import cache_folder
from engine.user_files import replacing


def kept_table(kind: str, of: Any) -> pa.Table | None:
    """None where none was kept, or its file is damaged: then it is made again."""
    try:
        return pq.read_table(kept_path(kind, of))
    except (OSError, pa.ArrowException):
        return None


def keep_table(table: pa.Table, kind: str, of: Any) -> None:
    path = kept_path(kind, of)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        pq.write_table(table, file)


def weights_of(entry: ModelEntry) -> list[str]:
    """A model and what tells its weights from others of its name."""
    files = sorted(entry.folder.glob("*.safetensors")) if entry.folder is not None else []
    return [entry.name, entry.sha256, *(f"{file.name} {file.stat().st_mtime_ns}" for file in files)]


def kept_path(kind: str, of: Any) -> Path:
    digest = hashlib.blake2b(json.dumps(of).encode(), digest_size=16).hexdigest()
    return cache_folder() / kind / f"{digest}.parquet"
