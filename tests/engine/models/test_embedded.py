"""The models that ship: whole, loadable by anyone, and able to do what their cards say."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.models.loading import load_model, model_folder, summarise
from engine.models.registry import EMBEDDED, ModelEntry, read_registry
from engine.models.shipped import unpack
from engine.text.check import check_sample
from tests.support import ROOT, sized, soaking

ENTRIES = read_registry(EMBEDDED)
MOST_WEIGHTS = 22 * 2**20
MOST_TREE = 36 * 2**20
GOOD = 0.8
"""Share of small molecules that a finished model copies right here; the cards have the measured figures."""

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


# One finished model of each architecture in `make test`; all of them are loaded and run below.
WRITING = [entry for entry in ENTRIES if soaking() or entry.name in ("demo-qwen:final", "demo-llama:final")]


@pytest.mark.soak
@pytest.mark.parametrize("entry", WRITING, ids=[entry.name for entry in WRITING])
def test_it_writes_molecules(entry: ModelEntry) -> None:
    """Through our loading, with plain ``generate``: as its card was measured, on a few molecules."""
    loaded = load_model(entry, "cpu")
    every = map(parse_smiles, load_run_set(200))
    molecules = [molecule for molecule in every if molecule.heavy_atoms <= sized(6, 12)][: sized(2, 8)]
    prompts = [loaded.tokenizer.encode(f"[SMILES]{molecule.smiles}[/SMILES]") for molecule in molecules]
    width, end = max(map(len, prompts)), loaded.tokenizer.end_id or 0
    ids = torch.tensor([[end] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        written = loaded.model.generate(  # type: ignore[operator]
            ids, attention_mask=mask, max_new_tokens=sized(250, 400), pad_token_id=end
        )
    answers = [loaded.tokenizer.decode(row) for row in written[:, width:].tolist()]
    assert all(answer.startswith("[CONFORMER]") for answer in answers)
    checks = [check_sample(answer, molecule) for answer, molecule in zip(answers, molecules, strict=True)]
    if entry.step == "final":
        assert sum(check.same_graph for check in checks) >= GOOD * len(checks), answers


@each
def test_plain_transformers_loads_and_runs_it(entry: ModelEntry) -> None:
    folder = str(model_folder(entry))
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("[SMILES]CC=O[/SMILES]", return_tensors="pt", add_special_tokens=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        written = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=20)
    assert "[CONFORMER]" in tokenizer.decode(written[0])
    assert int(written.max()) < len(tokenizer)
