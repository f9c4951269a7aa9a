"""The Logit health page's work on logs: read files, record one of an embedded model, look after one.

What takes long is a command in a process of its own, carried out for everybody who uses this server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.store.store import Store
from pages._shared.logits import manage_files as files
from pages._shared.logits import manage_log as one_log
from pages._shared.logits import manage_record as record
from pages._shared.logits.manage_work import LOGS
from pages._shared.logits.state import Chosen
from pages._shared.managing import tasks
from pages._shared.managing.views import show_one

READ, RECORD, LOG = "Read files", "Record", "One log"


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no log is chosen."""
    tasks.show(store, LOGS)
    views: dict[str, Callable[[], None]] = {
        READ: files.show,
        RECORD: record.show,
        LOG: partial(one_log.show, store, chosen),
    }
    show_one(views, store, "Logs")
