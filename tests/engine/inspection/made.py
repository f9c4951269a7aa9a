"""Small stores of made-up rows for the inspector's tests, and the demo store that ships."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.store.files import Files
from engine.store.schema import BLOCKS, SAMPLES, STEPS, TRIES
from engine.store.store import DEMO, Store
from tests.engine.store.stored_runs import begun, published

DEMO_STORE = Store(Files(DEMO))
Row = Mapping[str, Any]


def sample_row(sample_id: int, **columns: Any) -> dict[str, Any]:
    usual = {"generation": 0, "smiles": "CO", "text": "", "issues": [], "passed": True, "decodes": True, "clean": True}
    return {"sample_id": sample_id, **usual, **columns}


def block_row(sample_id: int, block: int, **columns: Any) -> dict[str, Any]:
    usual = {"atom": block, "element": "C", "text": "1.0,2.0,3.0", "kinds": ["exact"], "junk_text": ""}
    return {"sample_id": sample_id, "block": block, **usual, **columns}


def step_row(sample_id: int, pos: int, **columns: Any) -> dict[str, Any]:
    usual = {"token_id": 5, "piece": "5", "role": "COPY", "forced": False, "rule": "anything", "rank_raw": 1}
    return {"sample_id": sample_id, "pos": pos, **usual, **columns}


def write_run(
    store: Store,
    run_id: str,
    samples: Iterable[Row],
    blocks: Iterable[Row] = (),
    steps: Iterable[Row] = (),
    tries: Iterable[Row] = (),
    **about: Any,
) -> None:
    """One run; ``about`` are columns of ``runs``."""
    parts = {SAMPLES: list(samples), BLOCKS: list(blocks), STEPS: list(steps), TRIES: list(tries)}
    tables = {
        table.name: table.rows([{"run_id": run_id, **row} for row in rows]) for table, rows in parts.items() if rows
    }
    ids = [row["sample_id"] for row in parts[SAMPLES]]
    staging = begun(store.home, run_id, len(ids), **about)
    staging.add(tables, ids, sums={"samples": len(ids)})
    published(staging)


def write_four_engines(store: Store) -> list[str]:
    """Runs of one model and twelve molecules: by a server under ``exact`` and under its grammar, by our loop and by
    ``generate``. Seconds are 24, 36, 6 and 48; a quarter of the grammar's answers are cut otherwise."""
    engines = {"a": ("exact", "server", 24.0), "b": ("grammar", "server", 36.0), "c": ("exact", "fast", 6.0)}
    engines["d"] = "exact", "hf", 48.0
    for run_id, (lp, backend, wall_s) in engines.items():
        samples = [
            sample_row(number, smiles="C" * (number + 1), canonical=lp == "exact" or number >= 3, usable=True)
            for number in range(12)
        ]
        counts: Row = {"usable": 12, "judged": 12, "clean": 12, "wall_s": wall_s, "molecules": 12}
        write_run(store, run_id, samples, lp=lp, backend=backend, model_alias="m", model_step="1", **counts)
    return list(engines)


def demo_run(*parts: str) -> str:
    """The id of the demo's run that has all of these in it; of two under one LP that with the LP's own descriptors."""
    shipped = (entry for entry in DEMO_STORE.listing().entries if entry.row.get("label") == "ships with the project")
    (run_id,) = (entry.id for entry in shipped if all(part in entry.id for part in ("demo-", *parts)))
    return run_id
