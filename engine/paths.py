"""Where the project keeps things: shipped data, static files, caches; and how its TOML files are read.

Nothing here creates a folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import FileFormatError, shown
from engine.user_files import open_file

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
STATIC = ROOT / "static"
Parsed = TypeVar("Parsed")


def read_toml(path: Path, what: str, parse: Callable[[Mapping[str, Any]], Parsed]) -> Parsed:
    """What ``parse`` makes of the file; errors name the file, and ``what`` it should be."""
    try:
        with open_file(path) as file:
            return parse(tomllib.load(file))
    except (ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        raise FileFormatError(f"{shown(path, 200)} is no {what}: {error}", "Fix the file") from error


def cache_folder() -> Path:
    """``DRIFTSCOPE_CACHE``, else the user's cache folder: things that can be made again."""
    chosen = os.environ.get("DRIFTSCOPE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "driftscope"
