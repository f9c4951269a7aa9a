"""JSON and other files next to those of arrays: written whole, read with one line where they are damaged."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.comparing.array_files import write_bytes
from engine.errors import FileError
from engine.user_files import PART


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    write_bytes(path, (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}", "Make it again") from error
    except (ValueError, TypeError) as error:
        raise FileError(f"{path} is damaged: {error}", "Make it again") from error


def remove_stale(folder: Path, patterns: Iterable[str], kept: Collection[str]) -> None:
    """Remove files of these patterns, but for the names to keep, and what killed writers left."""
    stale = [path for pattern in patterns for path in folder.glob(pattern) if path.name not in kept]
    for path in [*stale, *folder.glob(f".*{PART}")]:
        path.unlink(missing_ok=True)
