"""The last used models, so that a page's second generation does not load its model again.

Nothing here is locked: only the worker's thread uses it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.models.registry import ModelEntry

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

MOST = 2
Load = Callable[[ModelEntry, str, str], "LoadedModel"]  # entry, device, dtype


class Models:
    """At most ``most`` loaded models; the least recently used one is dropped first. A failed load is not kept."""

    def __init__(self, most: int = MOST, load: Load | None = None) -> None:
        self._most = most
        self._load = _load_model if load is None else load
        self._kept: dict[tuple[ModelEntry, str, str], LoadedModel] = {}  # least recently used first

    def get(self, entry: ModelEntry, device: str = "auto", dtype: str | None = None) -> LoadedModel:
        """Kept by the entry's content and by the names of device and dtype."""
        key = (entry, device, dtype or entry.dtype)
        loaded = self._kept.pop(key, None)
        if loaded is None:
            self._make_room()  # first: there may be no memory for one more
            loaded = self._load(*key)
        self._kept[key] = loaded
        return loaded

    def _make_room(self) -> None:
        devices = set()
        while len(self._kept) >= self._most:
            devices.add(self._kept.pop(next(iter(self._kept))).device.type)
        if devices:
            gc.collect()
        if "cuda" in devices:
            import torch

            torch.cuda.empty_cache()  # else the check of free memory would count this as taken


def _load_model(entry: ModelEntry, device: str, dtype: str) -> LoadedModel:
    from engine.models.loading import load_model

    return load_model(entry, device, dtype)
