"""Runs of made-up rows, written the way that the runner writes them, without a model and without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import BLOCKS, RUN, SAMPLES, STEPS
from engine.store.staging import Staging, totals
from engine.store.store import Store, damaged_parts

BLOCKS_EACH = 3
MADE_AT = "2026-01-02T03:04:05+00:00"


def tables(run_id: str, ids: Iterable[int], *, steps: bool = False) -> dict[str, pa.Table]:
    """Every other sample fails; every third block is cut. The first has a step, where they are asked for."""
    ids = list(ids)
    samples = [
        {
            "run_id": run_id,
            "sample_id": number,
            "generation": 0,
            "smiles": "CC=O",
            "text": f"[CONFORMER]的{number}",
            "token_ids": [number, number + 1],
            "forced": [True, False],
            "passed": number % 2 == 0,
            "clean": False,
            "issues": [] if number % 2 == 0 else ["SMILES mismatch"],
            "tokens": 2,
            "blocks": BLOCKS_EACH,
            "decode_s": 0.25,
        }
        for number in ids
    ]
    blocks = [
        {"run_id": run_id, "sample_id": number, "block": block, "kinds": ["exact"] if block else ["cut"]}
        for number in ids
        for block in range(BLOCKS_EACH)
    ]
    parts = {SAMPLES.name: SAMPLES.rows(samples), BLOCKS.name: BLOCKS.rows(blocks)}
    if steps:
        row = {"run_id": run_id, "sample_id": ids[0], "pos": 0, "token_id": 5, "p_raw": 0.5}
        parts[STEPS.name] = STEPS.rows([row | {"top_k": [{"token_id": 5, "p_raw": 0.5, "allowed": True}]}])
    return parts


def sums(ids: Sequence[int]) -> dict[str, float]:
    return {
        "samples": len(ids),
        "passes": sum(number % 2 == 0 for number in ids),
        "clean": 0,
        "blocks": BLOCKS_EACH * len(ids),
        "cut_blocks": len(ids),
        "tokens": 2 * len(ids),
        "decode_s": 0.25 * len(ids),
    }


def begun(files: Files, run_id: str = "one", samples: int = 4, **row: Any) -> Staging:
    said = {"origin": "measured", "created_at": MADE_AT, "model_alias": "toy", "lp": "exact", **row}
    return Staging.create(files, RUN, run_id, said, samples=samples)


def add(staging: Staging, ids: Iterable[int], *, steps: bool = False, **more: Any) -> None:
    ids = list(ids)
    staging.add(tables(staging.id, ids, steps=steps), ids, sums=sums(ids) | {"peak_memory_mb": 7.5}, **more)


def published(staging: Staging, **row: Any) -> Entry:
    return staging.publish({**totals(staging.groups()), **row})


def written(files: Files, run_id: str = "one", samples: int = 4, *, steps: bool = False, **row: Any) -> Entry:
    """A whole run, of two groups."""
    staging = begun(files, run_id, samples, **row)
    half = samples // 2
    add(staging, range(half), steps=steps)
    add(staging, range(half, samples))
    return published(staging, **row)


def store_at(folder: Path) -> Store:
    return Store(Files(folder))


def sheet_of(store: Store, run_id: str = "one") -> Path:
    return Path(store.home.path(f"runs/run_id={run_id}/run.json"))


def folder_of(store: Store, run_id: str = "one") -> Path:
    return sheet_of(store, run_id).parent


def named(store: Store) -> dict[str, str]:
    """What is left out, and why, by the place inside the store."""
    root = f"{store.home.where}/"
    return {damage.where.removeprefix(root): damage.reason for damage in store.listing().damages}


def ids(store: Store) -> list[str]:
    return [entry.id for entry in store.listing().entries]


def staged(store: Store, run_id: str = "one") -> Path:
    return Path(store.home.path(f"staging/{run_id}"))


def retype(store: Store, table: str, column: str, run_id: str = "one") -> None:
    """The file with another type of this column, and the sheet with the file's new size and sums."""
    sheet = json.loads(sheet_of(store, run_id).read_text())
    path = folder_of(store, run_id) / sheet["tables"][table]["file"]
    rows = pq.read_table(path, partitioning=None)
    values = rows[column].to_pylist()
    other: Any = range(len(values))
    if rows.schema.field(column).type != pa.string():
        other = [None if value is None else str(value) for value in values]
    pq.write_table(rows.set_column(rows.column_names.index(column), column, pa.array(other)), path)
    content = path.read_bytes()
    sheet["tables"][table] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    sheet_of(store, run_id).write_text(json.dumps(sheet))


def assert_whole(store: Store) -> None:
    """What is served is what was written, and nothing is left out."""
    assert named(store) == {}
    for entry in store.listing().entries:
        assert damaged_parts(entry) == []
        rows = pq.read_table(entry.path("samples"), partitioning=None)
        assert rows.num_rows == entry.row["samples"] == entry.parts["samples"].rows
