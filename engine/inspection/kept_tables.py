"""Tables that took a model or a judge to make: in the cache folder, by a digest of all that they were made of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.models.registry import ModelEntry
from engine.paths import cache_folder
from engine.user_files import replacing


@dataclass(frozen=True, slots=True)
class KeptTable:
    kind: str
    of: Any  # values that JSON takes

    def read(self) -> pa.Table | None:
        """None where none was kept, or its file is damaged: then it is made again."""
        try:
            return pq.read_table(self._path)
        except (OSError, pa.ArrowException):
            return None

    def write(self, table: pa.Table) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self._path) as file:
            pq.write_table(table, file)

    @property
    def version(self) -> str:
        """Of what an answer is made of it: another one once it is made, or made again."""
        about = self._path.stat() if self._path.exists() else None
        return f"{self._path.stem} {about and (about.st_mtime_ns, about.st_ino)}"

    @property
    def _path(self) -> Path:
        digest = hashlib.blake2b(json.dumps(self.of).encode(), digest_size=16).hexdigest()
        return cache_folder() / self.kind / f"{digest}.parquet"


def weights_of(entry: ModelEntry) -> list[str]:
    """A model and what tells its weights from others of its name."""
    files = sorted(entry.folder.glob("*.safetensors")) if entry.folder is not None else []
    return [entry.name, entry.sha256, *(f"{file.name} {file.stat().st_mtime_ns}" for file in files)]
