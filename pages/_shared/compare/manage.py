"""The Compare page's work on the store: start runs and watch them, go on with unfinished ones, import, look after one.

All that takes long is a command in a process of its own, carried out for everybody who uses this server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.store.store import Store
from pages._shared.compare import manage_import as imports
from pages._shared.compare import manage_run as one_run
from pages._shared.compare import manage_start as start
from pages._shared.compare import manage_unfinished as unfinished
from pages._shared.compare.state import Chosen
from pages._shared.managing import tasks
from pages._shared.managing.views import show_one

START, UNFINISHED, IMPORT, RUN = "Start runs", "Unfinished", "Import", "One run"


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no run is compared."""
    tasks.show(store)
    views: dict[str, Callable[[], None]] = {
        START: start.show,
        UNFINISHED: partial(unfinished.show, store),
        IMPORT: imports.show,
        RUN: partial(one_run.show, store, chosen),
    }
    show_one(views, store, "Runs")
