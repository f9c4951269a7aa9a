"""The Profiles page's work on traces: read files, capture a generation, look after one trace.

What takes long is a command in a process of its own, carried out for everybody who uses this server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.store.store import Store
from pages._shared.managing import tasks
from pages._shared.managing.views import show_one
from pages._shared.profiles import manage_capture as capture
from pages._shared.profiles import manage_files as files
from pages._shared.profiles import manage_trace as one_trace
from pages._shared.profiles.manage_work import TRACES
from pages._shared.profiles.state import Chosen

READ, CAPTURE, TRACE = "Read files", "Capture", "One trace"


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no trace is chosen."""
    tasks.show(store, TRACES)
    views: dict[str, Callable[[], None]] = {
        READ: partial(files.show, store),
        CAPTURE: capture.show,
        TRACE: partial(one_trace.show, store, chosen),
    }
    show_one(views, store, "Traces")
