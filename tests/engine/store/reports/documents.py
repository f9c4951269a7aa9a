"""A report file to try the import and the export on, and what becomes of it."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.reports.importing import import_report
from engine.store.store import Store

PROMPT = "[SMILES]CC=O[/SMILES]"
CLEAN = "[CONFORMER][C]<0.1,0.2,0.3>[C]<1.2345,-0.5,1.0>=[O]<2.0,0.1,-0.4>[/CONFORMER]"
JUNK = "[CONFORMER][C]<6.9467,-1.369,0.8415amen>[C]<3.175,-0.187,0.4142}2>=[O]<1.2,3.4,>[/CONFORMER]"

DOCUMENT: dict[str, Any] = {
    "metadata": {
        "version": "v3.8",
        "processor_type": "qwen",
        "timestamp": "2025-12-13T10:20:30",
        "model_alias": "qwen3_06b_pre",
        "model_step": "40k",
        "model_path": "/models/qwen3_06b_pre/40k",
        "tokenizer_name": "qwen3_0.6b_custom",
        "tokenizer_path": "/tokenizers/qwen3",
        "logit_processor_enabled": True,
        "sampling": "p0.8_t1.2",
        "batch_size": 32,
        "sample_size": 3,
        "num_generations": 1,
        "total_generations": 3,
        "kv_cache": "dynamic",
        "attention": "sdpa",
        "parallel_templates": True,
        "template_workers": 8,
        "cache_tokenizer": False,
    },
    "time_taken": 115.46,
    "throughput_chars_per_sec": 422.7,
    "total_chars_raw": 48815,
    "total_chars_clean": 48810,
    "passes": [
        {
            "prompt_smiles": "CC=O",
            "generated_smiles": "CC=O",
            "smiles_exact_match": True,
            "has_real_coordinates": True,
            "parse_success": True,
            "decoded_text": f"[SMILES]CC=O[/SMILES]{CLEAN}<|endoftext|><|endoftext|>",
        },
        {
            "prompt_smiles": "CC=O",
            "generated_smiles": "CC=O",
            "smiles_exact_match": True,
            "has_real_coordinates": True,
            "parse_success": True,
            "decoded_text": f"[SMILES]CC=O[/SMILES]{JUNK}",
        },
    ],
    "failures": [
        {
            "prompt_smiles": "CCO",
            "issues": ["generated conformer <> prompt SMILES mismatch"],
            "decoded_text": f"[SMILES]CCO[/SMILES]{CLEAN}",
            "generation_has_same_molecular_graph": False,
            "extracted_smiles": "CC=O",
        }
    ],
}


def document(**metadata: Any) -> dict[str, Any]:
    """A copy of the document above with other metadata; None takes a key away."""
    report = copy.deepcopy(DOCUMENT)
    report["metadata"] = {key: value for key, value in (report["metadata"] | metadata).items() if value is not None}
    return report


def one_text(decoded: str, smiles: str = "CC=O", **metadata: Any) -> dict[str, Any]:
    return document(**metadata) | {"passes": [{"prompt_smiles": smiles, "decoded_text": decoded}], "failures": []}


def file_of(folder: Path, content: Any, name: str = "run.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def store_in(folder: Path) -> Store:
    return Store(Files(folder / "store"))


def imported(folder: Path, content: Any, **more: Any) -> Entry:
    return import_report(store_in(folder), file_of(folder, content), **more)


def rows(folder: Path, sql: str) -> list[dict[str, Any]]:
    return store_in(folder).rows(sql)


def sample_of(folder: Path, content: Any) -> dict[str, Any]:
    imported(folder, content)
    return rows(folder, "SELECT * FROM samples ORDER BY sample_id")[0]
