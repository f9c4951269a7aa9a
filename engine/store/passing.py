"""Runs that nobody has kept yet: a place of this process, shown beside the store, and gone when the process ends.

What the live page writes lands here in the very form of the store, so that everything that reads runs reads it too.
``keep`` takes one over into the user's store. What this module does not know: who wrote a run, or for which visitor.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DriftscopeError, StoreError
from engine.store.entries import Entry
from engine.store.files import Files, LocalFiles
from engine.store.schema import RUN, Kind
from engine.store.staging import Staging
from engine.store.store import Store

MOST_KEPT = 200
"""Runs of the place; the oldest go first."""
OF_ITS_OWN = ("schema", "kind", "row", "tables")
_MAKING = threading.Lock()


def passing_files() -> LocalFiles:
    """The place, made when it is first asked for."""
    with _MAKING:
        return _passing_files()


@functools.cache
def _passing_files() -> LocalFiles:
    folder = Path(tempfile.mkdtemp(prefix="driftscope-passing-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return LocalFiles(folder)


def with_passing(store: Store) -> Store:
    """The store, and beside it what nobody has kept."""
    return Store(store.home, (*store.beside, passing_files()))


def is_passing(entry: Entry) -> bool:
    return entry.files is passing_files()


def trim(files: Files, most: int = MOST_KEPT, kind: Kind = RUN) -> None:
    """Leave the newest runs only. Their names begin with the time."""
    names = sorted(files.folders(kind.folder))
    for name in names[: max(0, len(names) - most)]:
        with contextlib.suppress(DriftscopeError):  # somebody else was faster
            files.remove(f"{kind.folder}/{name}")


def keep(entry: Entry, home: Files, label: str = "", kind: Kind = RUN) -> Entry:
    """A copy of the entry in the user's store, under the same name."""
    row, more = dict(entry.sheet["row"]), {key: said for key, said in entry.sheet.items() if key not in OF_ITS_OWN}
    staging = Staging.create(home, kind, entry.id, row, **more)
    try:
        tables = {name: _rows(entry, part.file) for name, part in entry.parts.items()}
        staging.add(tables)
        return staging.publish({"label": label} if label else {})
    except BaseException:
        with contextlib.suppress(DriftscopeError):
            staging.abandon()
        raise


def _rows(entry: Entry, file: str) -> pa.Table:
    try:
        return pq.read_table(pa.BufferReader(entry.files.read(f"{entry.folder}/{file}")))
    except OSError as error:
        raise StoreError(f"{entry.id} is not there any more", "Generate it again") from error
