"""Runs that are not saved: a place of this process, shown beside the store, and removed when the process ends.

The live page writes here in the form of the store, so that all that reads runs reads these too. ``keep`` copies one
into the user's store. What this module does not know: who wrote a run, or for which visitor.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
import threading
from pathlib import Path

from engine.errors import DriftscopeError, StoreError
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import begun_anew
from engine.store.store import Store

MOST_KEPT = 200
"""Runs of the place; the oldest go first."""


_CREATING = threading.Lock()


def temporary_files() -> Files:
    """The place, created at its first use."""
    with _CREATING:
        return _temporary_files()


@functools.cache
def _temporary_files() -> Files:
    folder = Path(tempfile.mkdtemp(prefix="driftscope-temporary-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Files(folder)


def with_temporary(store: Store) -> Store:
    """The store, with the temporary runs beside it."""
    return Store(store.home, (*store.beside, temporary_files()))


def is_temporary(entry: Entry) -> bool:
    return entry.files is temporary_files()


def trim(files: Files, most: int = MOST_KEPT) -> None:
    """Keep the newest runs only: their names begin with the time."""
    for name in files.folders(RUN.folder)[:-most]:
        with contextlib.suppress(DriftscopeError):  # another process removed it
            files.remove(f"{RUN.folder}/{name}")


def keep(entry: Entry, home: Files, label: str = "") -> Entry:
    """A copy of the entry in the user's store, under the same name."""
    more = {key: value for key, value in entry.sheet.items() if key not in ("schema", "kind", "row", "tables")}
    try:
        with begun_anew(home, RUN, entry.id, entry.sheet["row"], **more) as staging:
            staging.add({table: entry.read(table) for table in entry.parts})
            return staging.publish({"label": label} if label else {})
    except OSError as error:
        raise StoreError(f"{entry.id} is gone", "Generate it again") from error
