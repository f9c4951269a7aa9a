"""The last used models, so that a page's second generation does not load its model again.

Nothing here is locked: only the worker's thread uses it.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from engine.models.registry import ModelEntry

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

MOST = 2


class Models:
    """At most ``MOST`` loaded models; the least recently used one is dropped first. A failed load is not kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[ModelEntry, str, str], LoadedModel] = {}  # least recently used first

    def get(self, entry: ModelEntry, device: str = "auto", dtype: str | None = None) -> LoadedModel:
        from engine.models.loading import load_model

        key = (entry, device, dtype or entry.dtype)
        loaded = self._kept.pop(key, None)
        if loaded is None and len(self._kept) >= MOST:  # room first: there may be no memory for one more
            import torch

            del self._kept[next(iter(self._kept))]
            gc.collect()
            torch.cuda.empty_cache()  # else the check of free memory would count this as taken
        self._kept[key] = loaded = loaded or load_model(*key)
        return loaded
