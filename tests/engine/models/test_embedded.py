"""The models that ship: whole, loadable by anyone, and able to do what their cards say."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.models.loading import model_folder, summarise
from engine.models.registry import EMBEDDED, ModelEntry, read_registry
from engine.models.shipped import unpack
from tests.support import ROOT

ENTRIES = read_registry(EMBEDDED)
MOST_WEIGHTS = 22 * 2**20
MOST_TREE = 36 * 2**20

each = pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])


def test_the_aliases_and_steps_that_are_promised() -> None:
    promised = {"demo-qwen:final", "demo-qwen-l3:final", "demo-llama:early", "demo-llama:final"}
    assert promised <= {entry.name for entry in ENTRIES}


@each
def test_its_files_belong_together(entry: ModelEntry) -> None:
    assert entry.shipped is not None
    assert entry.card is not None
    found = summarise(entry)
    assert found["problem"] == ""
    about = unpack(entry.shipped, entry.sha256).about
    assert about["alias"] == entry.alias
    document = json.loads(entry.card.with_suffix(".json").read_text(encoding="utf-8"))
    assert document["facts"]["tokens"] == about["tokens"]
    assert document["quality"]["parameters"] == found["parameters"]
    text = entry.card.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert pictures and all((entry.card.parent / picture).is_file() for picture in pictures)


def test_the_weights_and_the_tree_are_small_enough() -> None:
    assert sum(entry.shipped.stat().st_size for entry in ENTRIES if entry.shipped) <= MOST_WEIGHTS
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    files = [ROOT / name.decode() for name in listed if name]
    assert sum(path.stat().st_size for path in files if path.is_file()) <= MOST_TREE


@each
def test_plain_transformers_loads_and_runs_it(entry: ModelEntry) -> None:
    folder = str(model_folder(entry))
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("[SMILES]CC=O[/SMILES]", return_tensors="pt", add_special_tokens=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        written = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=8)
    assert "[CONFORMER]" in tokenizer.decode(written[0])
    assert int(written.max()) < len(tokenizer)
