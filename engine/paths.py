"""Where the project keeps things: shipped data, the user's own, static files, caches; and how TOML files and the paths
that users write are read.

In a checkout all but the caches lie in it. Installed (`pip install .`), what ships is in the package, and the user's
runs where the system keeps a user's data.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import DriftscopeError, FileError, shown
from engine.user_files import open_file

ROOT = Path(__file__).resolve().parent.parent
_SHIPPED = Path(__file__).resolve().parent / "_data"  # data/ in an installed package
IS_INSTALLED = _SHIPPED.is_dir()
DATA = _SHIPPED if IS_INSTALLED else ROOT / "data"
USER_DATA = DATA
if IS_INSTALLED:
    USER_DATA = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "driftscope"
STATIC = (USER_DATA if IS_INSTALLED else ROOT) / "static"
STORE_VARIABLE, HOME = "DRIFTSCOPE_STORE", USER_DATA / "store"
MOST_TOML_BYTES = 1024 * 1024
Parsed = TypeVar("Parsed")


def user_path(text: str, where: str, error: type[DriftscopeError] = FileError) -> Path:
    """A path as a user writes it, ``~`` for a home folder; ``where`` it is written, for the error."""
    try:
        return Path(text).expanduser()
    except RuntimeError as reason:
        raise error(f"{where}: the home folder of {shown(text, 200)} is not known", "Give the whole path") from reason


def read_toml(path: Path, kind: str, parse: Callable[[Mapping[str, Any]], Parsed], **how: Any) -> Parsed:
    """What ``parse`` makes of the file; errors name the file and its ``kind``. ``how`` is for ``tomllib``."""
    try:
        with open_file(path) as file:
            content = file.read(MOST_TOML_BYTES + 1)
        if len(content) > MOST_TOML_BYTES:
            raise ValueError(f"it has over {MOST_TOML_BYTES // 2**20} MB")
        return parse(tomllib.loads(content.decode("utf-8-sig"), **how))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, re.error) as error:
        raise FileError(f"{shown(path, 200)} is no {kind}: {error}", "Fix the file") from error


def store_folder() -> Path:
    """The user's store: ``DRIFTSCOPE_STORE``, else where it usually is."""
    chosen = os.environ.get(STORE_VARIABLE)
    return user_path(chosen, STORE_VARIABLE) if chosen else HOME


def cache_folder() -> Path:
    """``DRIFTSCOPE_CACHE``, else the user's cache folder: things that can be made again."""
    if chosen := os.environ.get("DRIFTSCOPE_CACHE"):
        return user_path(chosen, "DRIFTSCOPE_CACHE")
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "the cache folder") / "driftscope"
