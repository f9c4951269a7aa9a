"""Where the project keeps things: shipped data, the user's own, static files, caches; and how its TOML files are read.

In a checkout all but the caches lie in it. Installed (`pip install .`), what ships lies in the package, and the user's
runs where the system keeps a user's data. Nothing here creates a folder.
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
_SHIPPED = Path(__file__).resolve().parent / "_data"  # data/ in an installed package


def user_folder() -> Path:
    """Where an installed engine keeps what is the user's: ``driftscope`` in ``XDG_DATA_HOME``."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "driftscope"


IS_INSTALLED = _SHIPPED.is_dir()
DATA = _SHIPPED if IS_INSTALLED else ROOT / "data"
USER_DATA = user_folder() if IS_INSTALLED else DATA
STATIC = (USER_DATA if IS_INSTALLED else ROOT) / "static"
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
