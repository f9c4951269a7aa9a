"""A store of logit logs for tests of the page: a clean one, one of each kind of damage, one that is hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.logits.ingest import LogNames
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from tests.engine.logits.logs import Rows, clean, new_log, objects, singles, write

HOSTILE = "<img src=x onerror=alert(1)>"
OVERRIDE = "\u202e[x](http://a.b)</script>"
LONG = "x" * 10_000
TOKENS, WIDTH = 60, 12


def _freed(rows: Rows) -> None:
    low = np.random.default_rng(0).integers(0x10000000, 0xFFFFFFF0, len(rows)) & ~0xF
    for token in range(0, len(rows), 2):
        rows[token, :4] = singles(low[token], 0x00007FA3, low[token - 1], 0x00007FA3)


def _again(rows: Rows) -> None:
    rows[5:30, 0] = -46_580.0
    rows[10:14, 8:10] = 0
    rows[20:24, 4:7] = rows[19, 4:7]


def _overflown(rows: Rows) -> None:
    rows[12:, 3] = np.inf
    rows[14:, 4] = np.nan


DAMAGES: dict[str, Callable[[Rows], None]] = {"freed": _freed, "again": _again, "overflow": _overflown}


def store_at(place: Path) -> Store:
    return Store(Files(place / "store"))


def add(store: Store, folder: Path, name: str, rows: Rows, **said: Any) -> Entry:
    """One log; ``said`` goes into its lines, but ``label``, which is a user's."""
    names = LogNames(label=said.pop("label", None))
    return new_log(store, write(folder / f"{name}.jsonl.gz", objects(rows, **said)), names)


def damaged_rows(name: str) -> Rows:
    rows = clean(TOKENS, WIDTH)
    DAMAGES[name](rows)
    return rows


def add_all(store: Store, folder: Path) -> dict[str, Entry]:
    """A log a damage, each by a model of its name; then two engines' clean logs of one model, ours the newest."""
    found = {
        name: add(store, folder, name, damaged_rows(name), model=f"model {name}", precision="f16") for name in DAMAGES
    }
    rows = clean(TOKENS, WIDTH, seed=9)
    found["theirs"] = add(store, folder, "theirs", rows + 1e-4, model="demo", precision="f32")
    found["clean"] = add(store, folder, "clean", rows, team="driftscope", model="demo", precision="f32")
    return found


def add_hostile(store: Store, folder: Path) -> Entry:
    rows = damaged_rows("freed")
    said = {"checkpoint": f"logits {HOSTILE}", "source": OVERRIDE, "precision": LONG}
    return add(store, folder, "hostile", rows, team=HOSTILE, model=OVERRIDE, label=HOSTILE + LONG, **said)


def spoil_sheet(store: Store, entry: Entry, **row: Any) -> None:
    """Another row in the log's sheet, as an older or a broken program may have left it; None takes a key away."""
    name = f"{entry.folder}/{LOGIT_LOG.sheet}"
    sheet = json.loads(store.home.read(name))
    sheet["row"] = {key: value for key, value in (sheet["row"] | row).items() if value is not None}
    store.home.write(name, json.dumps(sheet).encode())


def spoil_values(store: Store, entry: Entry) -> None:
    """Its values have the right size, and are no Parquet file."""
    path = Path(store.home.where) / entry.folder / entry.parts["logit_values"].file
    path.write_bytes(bytes(path.stat().st_size))


def lose_values(store: Store, entry: Entry) -> None:
    (Path(store.home.where) / entry.folder / entry.parts["logit_values"].file).unlink()
