"""Where the project keeps things: shipped data, static files, caches. Nothing here creates a folder."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
STATIC = ROOT / "static"


def cache_folder() -> Path:
    """``DRIFTSCOPE_CACHE``, else the user's cache folder: things that can be made again."""
    chosen = os.environ.get("DRIFTSCOPE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "driftscope"
