"""Measuring a model: reference texts are found perfect, noise is found wanting, and nothing of either ends the run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem
from transformers import GenerationConfig

from engine.chem.conformers import reference_conformers
from engine.chem.smiles import parse_smiles
from engine.models.shipped import SAMPLING
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.tools.training.quality_source import SMILES, ReferenceWriter
from tools.training import quality
from tools.training.quality import Quality, distances, measure, random_chain
from tools.training.shapes import ModelShape

ROWS = 151_936


@pytest.fixture(scope="module", params=["qwen3", "llama3"])
def tokenizer(request: pytest.FixtureRequest) -> TextTokenizer:
    return load_tokenizer(request.param)


@pytest.fixture
def few_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of them: the reference writer's is the first, whatever their number."""
    given = distances
    monkeypatch.setattr(quality, "distances", lambda mol, molecule, seed: given(mol, molecule, seed, references=4))


def measured(
    monkeypatch: pytest.MonkeyPatch, writer: ReferenceWriter, smiles: list[str] = SMILES, **options: Any
) -> Quality:
    monkeypatch.setattr(quality, "load_model", lambda folder: writer)
    return measure(Path("anywhere"), writer.tokenizer, smiles, **options)


def numbers(document: object) -> list[float]:
    if isinstance(document, dict):
        return [number for value in document.values() for number in numbers(value)]
    if isinstance(document, list):
        return [number for value in document for number in numbers(value)]
    return [document] if isinstance(document, int | float) else []


@pytest.mark.usefixtures("few_references")
def test_reference_texts_are_all_right(monkeypatch: pytest.MonkeyPatch, tokenizer: TextTokenizer) -> None:
    found = measured(monkeypatch, ReferenceWriter(tokenizer))
    assert [sample.smiles for sample in found.samples] == SMILES
    assert all(
        sample.check.passed and sample.check.clean and sample.check.same_graph and sample.ended
        for sample in found.samples
    )
    assert all(sample.text.startswith("[CONFORMER]") and not sample.kinds for sample in found.samples)
    for sample in found.samples:  # the set holds what was written; written digits are cut at the fourth
        assert sample.distances is not None and sample.distances.model_ang < 2e-4
        assert sample.distances.chain_ang > sample.distances.model_ang
        assert sample.distances.etkdg_ang is not None and sample.distances.etkdg_ang < 2
    others = [sample.distances.etkdg_ang or 0 for sample in found.samples if sample.distances]
    assert max(others) > 0.05, "it is not one of the references"
    document = found.as_json()
    assert {size: one["clean"] for size, one in document["sizes"].items()} == {
        "4-8": 2,
        "9-12": 2,
        "13-16": 1,
        "all": 6,
    }
    assert document["sizes"]["all"]["asked"] == document["rmsd"]["all"]["molecules"] == 6


@pytest.mark.usefixtures("few_references")
def test_each_batch_is_asked_with_the_preset_and_room_for_its_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ReferenceWriter(load_tokenizer("qwen3"))
    measured(monkeypatch, writer, batch=4)
    assert [asked["rows"] for asked in writer.asked] == [4, 2]
    assert [asked["max_new_tokens"] for asked in writer.asked] == [40 * atoms + 64 for atoms in (10, 15)]
    for asked in writer.asked:
        assert {name: asked[name] for name in SAMPLING} == SAMPLING
        assert set(asked) == {*SAMPLING, "rows", "max_new_tokens", "pad_token_id"}


@pytest.mark.usefixtures("few_references")
def test_a_wrong_molecule_and_junk_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(text: str) -> str:
        if "Cl" in text:
            return text.replace("[Cl]", "[Br]")
        if "/" in text.removesuffix("[/CONFORMER]"):
            return text.replace(">/[", r">\[", 1)  # cis in place of trans
        return text.replace(">", "amen>", 1) if "[C@" in text else text

    writer = ReferenceWriter(load_tokenizer("qwen3"), changed)
    found = {sample.smiles: sample for sample in measured(monkeypatch, writer, seen_ids=range(151_000, ROWS)).samples}
    other, junk, right = found["O=C([O-])c1ccncc1Cl"], found["CC[C@@H](N)CO"], found["CCO"]
    for sample in (other, found["CCC/C=C/CN"]):
        assert (sample.check.parsed, sample.check.same_graph, sample.check.passed, sample.distances) == (
            True,
            False,
            False,
            None,
        )
    assert (
        junk.check.same_graph,
        junk.check.passed,
        junk.check.decodes,
        junk.check.clean,
        junk.kinds,
        junk.inexact_blocks,
    ) == (*(True, True, True, False, ("letters",), 1),)
    assert junk.distances is None
    assert (
        right.check.clean
        and right.check.decodes
        and right.unseen_tokens is not None
        and right.tokens - 3 == right.unseen_tokens
    )


def test_the_same_graph_in_another_order_is_measured_too() -> None:
    ours = parse_smiles("CC[C@@H](N)CO")
    conformers = reference_conformers(ours, 3)
    shuffled = Chem.RenumberAtoms(conformers, [3, 0, 5, 1, 4, 2])
    found = distances(Chem.Mol(shuffled, False, 1), ours, references=3)
    assert found.model_ang == pytest.approx(0, abs=1e-6)
    assert found.etkdg_ang is not None


def test_a_random_chain_is_always_the_same_and_keeps_its_steps() -> None:
    molecule = parse_smiles("CC(=O)Oc1ccccc1C(=O)[O-].[Na+]")
    first, again, other = (random_chain(molecule, seed) for seed in (0, 0, 1))
    xyz = first.GetConformer().GetPositions()
    assert (xyz == again.GetConformer().GetPositions()).all()
    assert not np.allclose(xyz, other.GetConformer().GetPositions())
    for atom in first.GetAtoms():
        if atom.GetIdx():
            earlier = [near.GetIdx() for near in atom.GetNeighbors() if near.GetIdx() < atom.GetIdx()]
            parent = max(earlier, default=atom.GetIdx() - 1)
            assert np.linalg.norm(xyz[atom.GetIdx()] - xyz[parent]) == pytest.approx(1.5)


def write_random_model(folder: Path, **generation: Any) -> Path:
    """Two layers of noise over Qwen's full vocabulary; 'plain' generate as an embedded model has it."""
    end = load_tokenizer("qwen3").end_id
    assert end is not None
    torch.manual_seed(0)
    shape = ModelShape("qwen3", width=32, layers=2, heads=2, kv_heads=1, inner=32)
    model = shape.model(shape.config(ROWS, end=end))
    with torch.no_grad():
        for weight in model.model.layers.parameters():
            weight.mul_(20)  # as it is made, what a token is followed by hardly depends on what stands before it
    options = {"eos_token_id": end, "pad_token_id": end, "suppress_tokens": list(range(151_673, ROWS)), **generation}
    model.generation_config = GenerationConfig(**options)
    model.save_pretrained(folder)
    return folder


def test_a_random_model_gets_nothing_right_and_nothing_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "TOKENS_AN_ATOM", 5)  # it never ends
    monkeypatch.setattr(quality, "TOKENS_AROUND", 10)
    folder = write_random_model(tmp_path / "random")
    tokenizer = load_tokenizer("qwen3")
    before = torch.get_rng_state()
    found = measure(folder, tokenizer, ["CO", "C"], seed=3, device="cpu")
    assert (torch.get_rng_state() == before).all()
    document = found.as_json()
    counts = document["sizes"]["all"]
    assert (counts["asked"], counts["same_graph"], counts["passed"], counts["clean"]) == (2, 0, 0, 0)
    assert document["rmsd"]["all"] == {"molecules": 0, "mean_ang": None, "median_ang": None}
    assert document["vocab_size"] == ROWS
    assert [sample.tokens for sample in found.samples] == [20, 15]  # each one's own limit
    assert all(math.isfinite(number) for number in numbers(document))
    json.dumps(document, allow_nan=False)
    assert measure(folder, tokenizer, ["CO", "C"], seed=3, device="cpu") == found


def test_a_batch_gives_each_molecule_what_it_gets_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "TOKENS_AN_ATOM", 1)
    monkeypatch.setattr(quality, "TOKENS_AROUND", 6)
    monkeypatch.setattr(quality, "SAMPLING", {"do_sample": False, "temperature": None, "top_p": None, "top_k": None})
    folder = write_random_model(tmp_path / "random")
    tokenizer = load_tokenizer("qwen3")
    together, alone = (measure(folder, tokenizer, SMILES[:3], batch=size, device="cpu") for size in (3, 1))
    assert together.samples == alone.samples
    assert len({sample.text for sample in alone.samples}) == 3


def test_figures_of_no_molecule_are_null() -> None:
    document = Quality((), 0, 32, 1, 1).as_json()
    assert document["sizes"]["all"]["asked"] == 0 and document["unseen"] is None
    assert document["rmsd"]["4-8"]["mean_ang"] is None


def test_molecules_of_no_class_count_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, ReferenceWriter(load_tokenizer("qwen3"), lambda text: text.replace("[", "")), ["CCO"])
    counted = replace(found, samples=found.samples * 2).as_json()["sizes"]
    assert (counted["all"]["asked"], counted["4-8"]["asked"]) == (2, 0)
