"""Stores for tests of the Drift inspector: demo runs, one without steps, an imported one, and one that is hostile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.chem.smiles import parse_smiles
from engine.decode.samples import Reader
from engine.inspection.molecules import sample_table
from engine.records import TRIMMED4
from engine.store.entries import entry_folder
from engine.store.reports.importing import import_report
from engine.store.sample_rows import block_rows, tables_of, written_row
from engine.store.schema import RUN
from engine.store.store import DEMO, Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, demo_run, write_run
from tests.engine.store.reports.documents import DOCUMENT
from tests.engine.store.stored_runs import store_at

WITH_JUNK = demo_run("llama", "group-v2.1")
EXACT = demo_run("qwen", "exact")
_BY_HARM = sample_table(DEMO_STORE, [WITH_JUNK], is_worst_first=True).select(["sample_id", "has_steps"]).to_pylist()
WORST: list[int] = [row["sample_id"] for row in _BY_HARM]
"""Of the run with junk: all of its answers pass, and none is clean."""
WITH_STEPS = next(row["sample_id"] for row in _BY_HARM if row["has_steps"])
CUT = len(DEMO_STORE.rows("SELECT 1 FROM samples WHERE run_id = $1 AND cut_blocks > 0", [WITH_JUNK]))
BARE, HOSTILE = "bare-run", "hostile-run"
HOSTILE_JUNK = "<img src=x onerror=alert(1)>"
HOSTILE_SMILES = "CO"
OVERRIDE = "\u202e[x](http://a.b)</script>"


def with_demo(root: Path, *run_ids: str) -> Store:
    """Copies of the demo's own runs."""
    for run_id in run_ids:
        folder = entry_folder(RUN, run_id)
        shutil.copytree(DEMO / folder, root / folder)
    return store_at(root)


def add_bare(store: Store, sample_ids: Sequence[int] = (0, 1)) -> str:
    """Samples of a demo run as a run that kept no steps."""
    samples, blocks = _rows_of(WITH_JUNK, sample_ids, "samples", "blocks")
    about: dict[str, Any] = {
        "model_alias": "demo-llama",
        "model_step": "final",
        "tokenizer": "llama3",
        "lp": "group-v2.1",
        "placeholder": "0.0000,0.0000,0.0000",
    }
    write_run(store, BARE, samples, blocks, **about)
    return BARE


SHAPED, STRUCK_AT = "shaped-run", 9


def add_shaped(store: Store) -> str:
    """Two answers of a demo run, as if ``shaped`` had written them: one with dead ends, one without."""
    samples, blocks, steps = _rows_of(EXACT, (0, 1), "samples", "blocks", "steps")
    minus, seven = (load_tokenizer("qwen3").encode(text)[0] for text in ("-", "7"))
    figures = {"redrawn_blocks": 0, "dead_ends": 0, "struck_tokens": 0, "unmended": []}
    wrong = [{"check": "bonds", "atoms": [2, 4], "detail": ""}]
    at_dead_ends = {"redrawn_blocks": 1, "dead_ends": 2, "struck_tokens": 31, "unmended": wrong}
    samples = [row | figures | (at_dead_ends if row["sample_id"] == 1 else {}) for row in samples]
    for step in steps:
        if (step["sample_id"], step["pos"]) == (1, STRUCK_AT):
            step["struck"] = [minus, seven]
    about: dict[str, Any] = {"model_alias": "demo-qwen", "model_step": "final", "tokenizer": "qwen3", "lp": "shaped"}
    write_run(store, SHAPED, samples, blocks, steps, **about)
    return SHAPED


def _rows_of(run_id: str, sample_ids: Sequence[int], *tables: str) -> list[list[dict[str, Any]]]:
    """What these tables have of a demo run's samples."""
    names = {"run": run_id, "samples": list(sample_ids)}
    chosen = "WHERE run_id = $run AND list_contains($samples, sample_id) ORDER BY ALL"
    return [_without_run(DEMO_STORE.rows(f"SELECT * FROM {table} {chosen}", names)) for table in tables]


def _without_run(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "run_id"} for row in rows]


def add_hostile(store: Store) -> str:
    """Junk that is markup, a mark that turns the writing around, and bytes that are half a character."""
    tokenizer = load_tokenizer("qwen3")
    molecule = parse_smiles(HOSTILE_SMILES)
    text = f"[CONFORMER][C]<1.0,2.0,3.0{HOSTILE_JUNK}[O]<1.5,2.5,3.5{OVERRIDE}>[/CONFORMER]"
    half = tokenizer.encode("的")[:1] if len(tokenizer.encode("的")) > 1 else tokenizer.encode("\U0001faa1")[:1]
    ids = [*tokenizer.encode(text), *half]
    reader = Reader(tokenizer, "none", "", TRIMMED4)
    sample = reader.read(molecule, ids, [False] * len(ids), "end")
    row = written_row(sample, heavy_atoms=molecule.heavy_atoms)
    tables = tables_of(HOSTILE, [row], block_rows(sample.sample_id, sample.blocks))
    rows = {name: _without_run(table.to_pylist()) for name, table in tables.items()}
    about: dict[str, Any] = {"model_alias": HOSTILE_JUNK, "model_step": "1", "tokenizer": "qwen3", "lp": "none"}
    write_run(store, HOSTILE, rows["samples"], rows["blocks"], **about)
    return HOSTILE


def add_imported(store: Store, folder: Path) -> str:
    """A report file: texts without their tokens, by a tokenizer that is named."""
    file = folder / "report.json"
    file.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    imported = import_report(store, file, tokenizer="qwen3")
    return str(getattr(imported, "id", ""))
