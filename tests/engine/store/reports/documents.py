"""Report files to try the import and the export on: one written by hand, and random ones from a seed."""

from __future__ import annotations

import copy
import gzip
import json
import random
from pathlib import Path
from typing import Any

from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.reports.importing import import_report
from engine.store.store import Store
from tests.strategies import ALPHABET, MOLECULES, damaged, molecule, written

PADS = ("", "", "<|endoftext|>", "<|endoftext|>" * 3, "</s>\n", " <|end_of_text|> ", "<pad><pad>")
VALUES: tuple[Any, ...] = (0, 1, -7, 2.5, 1.0, True, None, "", "text（的", [1, "a", None], {"a": {"b": []}}, 10**25)

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
    found = copy.deepcopy(DOCUMENT)
    found["metadata"] = {key: value for key, value in (found["metadata"] | metadata).items() if value is not None}
    return found


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
    entry = import_report(store_in(folder), file_of(folder, content), **more)
    assert isinstance(entry, Entry)
    return entry


def rows(folder: Path, sql: str) -> list[dict[str, Any]]:
    return store_in(folder).rows(sql)


def sample_of(folder: Path, content: Any) -> dict[str, Any]:
    imported(folder, content)
    return rows(folder, "SELECT * FROM samples ORDER BY sample_id")[0]


def random_document(seed: int) -> dict[str, Any]:
    """A report file as some version of some runner may have written it: keys missing and unknown, texts damaged."""
    rng = random.Random(seed)
    whole = document(
        processor_type=rng.choice(("qwen", "generic", "exact", "another")),
        version=rng.choice(("v3.8", "3.9", "v4.3", "v5", None)),
        logit_processor_enabled=rng.choice((True, False, None)),
        tokenizer_name=rng.choice(("qwen3_0.6b_custom", "llama3_chem_v1", "another", None)),
        sampling=rng.choice(("greedy", {"temperature": 0.7, "top_k": 20}, None)),
        model_step=rng.choice((40, "40k")),
        timestamp=rng.choice(("20251213_102030", "yesterday", 1.5e9, None)),
        time_taken=rng.choice((57, 57.0)),
    )
    whole["metadata"] = _some_keys(rng, whole["metadata"])
    whole["passes"] = [_random_item(rng, is_pass=True) for _ in range(rng.randrange(4))]
    whole["failures"] = [_random_item(rng, is_pass=False) for _ in range(rng.randrange(not whole["passes"], 4))]
    lists = {key: whole.pop(key) for key in ("passes", "failures") if whole[key] or rng.random() < 0.5}
    return _some_keys(rng, whole) | lists


def _some_keys(rng: random.Random, said: dict[str, Any], kept: tuple[str, ...] = ()) -> dict[str, Any]:
    """Fewer of its keys, and some that nobody knows; among them names that the store itself uses."""
    lost = {key for key in said if key not in kept and rng.random() < 0.15}
    names = ("extra_key", "reported", "unreported", "entry", "main", "totals", "text_after", "raw_text", "seed")
    more = {rng.choice(names): rng.choice(VALUES) for _ in range(rng.choice((0, 0, 1, 3)))}
    return {key: value for key, value in said.items() if key not in lost} | more


def _random_item(rng: random.Random, *, is_pass: bool) -> dict[str, Any]:
    smiles = rng.choice(MOLECULES)
    prompt = rng.choice((smiles, smiles, f"{smiles} ", "not a molecule", "OCC"))
    texts = [_random_text(rng, smiles, prompt) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
    base = DOCUMENT["passes"][0] if is_pass else DOCUMENT["failures"][0]
    item = _some_keys(rng, {**base, "prompt_smiles": prompt}, kept=("prompt_smiles", "decoded_text"))
    item["decoded_text"] = rng.choice(texts)
    if len(texts) > 1 or rng.random() < 0.2:
        if rng.random() < 0.3:
            item["decoded_text"] = _random_text(rng, smiles, prompt)
        item["all_generations"] = [_random_entry(rng, text) for text in texts[: rng.choice((0, 1, 9, 9))]]
    return item


def _random_entry(rng: random.Random, text: str) -> Any:
    return text if rng.random() < 0.5 else _some_keys(rng, {"decoded_text": text}, kept=("decoded_text",))


def _random_text(rng: random.Random, smiles: str, prompt: str) -> str:
    answer = f"[CONFORMER]{written(molecule(smiles), rng.randrange(2**32)).text}[/CONFORMER]"
    if rng.random() < 0.5:
        answer = damaged(answer, rng.randrange(2**32))
    if rng.random() < 0.1:
        answer = "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(40)))
    before = rng.choice((f"[SMILES]{prompt}[/SMILES]", f"<|endoftext|>[SMILES]{prompt}[/SMILES] ", prompt, ""))
    return before + answer + rng.choice(PADS)
