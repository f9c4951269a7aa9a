"""Measuring a model: reference texts are perfect, and what is wrong is found wanting."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.records import TRIMMED4
from engine.text.placeholder import reference_texts
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tools.training import quality
from tools.training.quality import Quality, distances, measure

SMILES = ["CCO", "COc1ccc(CN2CCNCC2)cc1", "CC[C@@H](N)CO", "CC(=O)Nc1ccccc1", "O=C([O-])c1ccncc1Cl", "CCC/C=C/CN"]


class ReferenceWriter:
    """Answers each prompt with the text of a reference conformer, or with what ``changed`` makes of it."""

    def __init__(self, tokenizer: TextTokenizer, changed: Any = lambda text: text) -> None:
        self.tokenizer, self.changed = tokenizer, changed
        self.device = torch.device("cpu")
        self.config = SimpleNamespace(vocab_size=tokenizer.vocab_size)
        self.generation_config = SimpleNamespace(eos_token_id=tokenizer.end_id, suppress_tokens=None)

    def to(self, device: torch.device) -> None:
        assert device.type in ("cpu", "cuda")

    def num_parameters(self) -> int:
        return 12_345

    def generate(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **options: Any) -> torch.Tensor:
        answers = [self._answer(row[kept.bool()].tolist()) for row, kept in zip(input_ids, attention_mask, strict=True)]
        longest = max(map(len, answers))
        pad = options["pad_token_id"]
        rows = [answer + [pad] * (longest - len(answer)) for answer in answers]
        return torch.cat((input_ids.cpu(), torch.tensor(rows)), dim=1)

    def _answer(self, prompt: list[int]) -> list[int]:
        smiles = self.tokenizer.decode(prompt).removeprefix("[SMILES]").removesuffix("[/SMILES]")
        text = f"[CONFORMER]{reference_texts(smiles, TRIMMED4)[0]}[/CONFORMER]"
        end = self.tokenizer.end_id
        assert end is not None
        return [*self.tokenizer.encode(self.changed(text)), end]


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


@pytest.mark.usefixtures("few_references")
def test_reference_texts_are_all_right(monkeypatch: pytest.MonkeyPatch, tokenizer: TextTokenizer) -> None:
    quality = measured(monkeypatch, ReferenceWriter(tokenizer))
    assert [sample.smiles for sample in quality.samples] == SMILES
    for sample in quality.samples:  # the set holds what was written; written digits are cut at the fourth
        assert sample.check.passed and sample.check.clean and sample.check.same_graph and sample.ended
        assert sample.text.startswith("[CONFORMER]") and not sample.kinds
        assert sample.distances is not None and sample.distances.model_ang < 2e-4
        assert sample.distances.chain_ang > sample.distances.model_ang
        assert sample.distances.etkdg_ang is not None and sample.distances.etkdg_ang < 2
    others = [sample.distances.etkdg_ang or 0 for sample in quality.samples if sample.distances]
    assert max(others) > 0.05, "it is not one of the references"
    document = quality.as_json()
    clean = {size: counts["clean"] for size, counts in document["sizes"].items()}
    assert clean == dict(zip(("4-8", "9-12", "13-16", "all"), (2, 2, 1, 6), strict=True))
    assert document["sizes"]["all"]["asked"] == document["rmsd"]["all"]["molecules"] == 6


@pytest.mark.usefixtures("few_references")
def test_a_wrong_molecule_and_junk_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(text: str) -> str:
        if "Cl" in text:
            return text.replace("[Cl]", "[Br]")
        if "/" in text.removesuffix("[/CONFORMER]"):
            return text.replace(">/[", r">\[", 1)  # cis in place of trans
        return text.replace(">", "amen>", 1) if "[C@" in text else text

    writer = ReferenceWriter(load_tokenizer("qwen3"), changed)
    drawn = {sample.smiles: sample for sample in measured(monkeypatch, writer, seen_ids=range(151_000, ROWS)).samples}
    other, junk, right = drawn["O=C([O-])c1ccncc1Cl"], drawn["CC[C@@H](N)CO"], drawn["CCO"]
    for sample in (other, drawn["CCC/C=C/CN"]):
        assert sample.check.parsed and not sample.check.same_graph and not sample.check.passed
        assert sample.distances is None
    assert junk.check.same_graph and junk.check.passed and junk.check.decodes and not junk.check.clean
    assert (junk.kinds, junk.inexact_blocks, junk.distances) == (("letters",), 1, None)
    assert right.check.clean and right.check.decodes and right.unseen_tokens == right.tokens - 3
