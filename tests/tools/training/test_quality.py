"""Measuring a model, and its card: reference texts are perfect, noise is found wanting, each figure is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.errors import FileFormatError
from engine.records import TRIMMED4
from engine.text.placeholder import reference_texts
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tools.training import quality
from tools.training.card import TrainingFacts, read_curves, write_card
from tools.training.quality import Quality, distances, measure
from tools.training.recipes import GROWING
from tools.training.shapes import ModelShape

SMILES = ["CCO", "COc1ccc(CN2CCNCC2)cc1", "CC[C@@H](N)CO", "CC(=O)Nc1ccccc1", "O=C([O-])c1ccncc1Cl", "CCC/C=C/CN"]
FACTS = TrainingFacts(
    alias="demo-qwen",
    step="final",
    tokenizer="qwen3",
    shape=ModelShape("qwen3"),
    tokens=2_000_000,
    texts=9_876,
    steps=250,
    minutes=61.5,
    hardware=("CPU (Some CPU), 2 threads, bf16",),
    stages=GROWING,
    optimiser="Muon for the matrices, AdamW for the rest, learning rate 0.003",
    command="python -m tools.training.train --model demo-qwen --hours 1",
)


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


def write_log(path: Path) -> Path:
    """A log of a training that learns; its tokens reach 2 million."""
    made: list[dict[str, Any]] = []
    for step in range(1, 41):
        place = {"tokens": 50_000 * step, "texts": 280 * step, "step": 25 * step, "spent_s": 90.0 * step}
        made.append({**place, "structure_nat": 11 * 0.8**step, "numbers_nat": 0.7 + 9 * 0.7**step, "rate": 1e-3})
        if step % 8 == 0:
            made.append({**place, "pass_rate": step / 50, "right": [step], "asked": [50], "stereo_rate": step / 80})
    path.write_text("".join(json.dumps(entry) + "\n" for entry in made), encoding="utf-8")
    return path


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
    found = measured(monkeypatch, ReferenceWriter(tokenizer))
    assert [sample.smiles for sample in found.samples] == SMILES
    for sample in found.samples:  # the set holds what was written; written digits are cut at the fourth
        assert sample.check.passed and sample.check.clean and sample.check.same_graph and sample.ended
        assert sample.text.startswith("[CONFORMER]") and not sample.kinds
        assert sample.distances is not None and sample.distances.model_ang < 2e-4
        assert sample.distances.chain_ang > sample.distances.model_ang
        assert sample.distances.etkdg_ang is not None and sample.distances.etkdg_ang < 2
    others = [sample.distances.etkdg_ang or 0 for sample in found.samples if sample.distances]
    assert max(others) > 0.05, "it is not one of the references"
    document = found.as_json()
    clean = {size: one["clean"] for size, one in document["sizes"].items()}
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
    found = {sample.smiles: sample for sample in measured(monkeypatch, writer, seen_ids=range(151_000, ROWS)).samples}
    other, junk, right = found["O=C([O-])c1ccncc1Cl"], found["CC[C@@H](N)CO"], found["CCO"]
    for sample in (other, found["CCC/C=C/CN"]):
        assert sample.check.parsed and not sample.check.same_graph and not sample.check.passed
        assert sample.distances is None
    assert junk.check.same_graph and junk.check.passed and junk.check.decodes and not junk.check.clean
    assert (junk.kinds, junk.inexact_blocks, junk.distances) == (("letters",), 1, None)
    assert right.check.clean and right.check.decodes and right.unseen_tokens == right.tokens - 3


def noisy(text: str) -> str:
    """Every x a tenth of an angstrom off, and one molecule with a word in a block."""
    moved = re.sub(r"<(-?\d+\.\d+)", lambda match: f"<{float(match.group(1)) + 0.1:.4f}", text)
    return moved.replace(">", "amen>", 1) if "Cl" in text else moved


def figures(document: object, path: str = "") -> list[tuple[str, float]]:
    if isinstance(document, dict):
        return [pair for key, value in document.items() for pair in figures(value, f"{path}.{key}")]
    if isinstance(document, list):
        return [pair for index, value in enumerate(document) for pair in figures(value, f"{path}.{index}")]
    return [(path, document)] if isinstance(document, int | float) else []


def spellings(value: float) -> set[str]:
    """How a figure may be written: whole, as a percentage, or rounded."""
    if isinstance(value, int):
        return {f"{value:,}"}
    return {f"{value:.{decimals}f}" for decimals in range(5)} | {f"{100 * value:.0f} %", f"{value:,.0f}"}


def has(card: str, value: float) -> bool:
    return any(re.search(rf"(?<![\d.,]){re.escape(text)}(?![\d]|[.,]\d)", card) for text in spellings(value))


@pytest.mark.usefixtures("few_references")
def test_every_figure_of_the_json_is_in_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ReferenceWriter(load_tokenizer("qwen3"), noisy)
    of_noise = measured(monkeypatch, writer, seed=7, batch=5, seen_ids=range(1_000))
    path = write_card(tmp_path / "models", "demo", FACTS, of_noise, write_log(tmp_path / "log.jsonl"))
    assert {one.name for one in path.parent.iterdir()} == {"demo.json", "demo.md", "demo.svg"}
    card, document = path.read_text(encoding="utf-8"), json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    checked = figures(document)
    assert len(checked) > 80
    assert [(path, value) for path, value in checked if not has(card, value)] == []
    assert document["quality"] == of_noise.as_json()
    assert document["training"]["pass_rate"] == pytest.approx(0.8)
    assert "0.800 of the molecules copied right, 0.500 of those that state stereo with the right one" in card


@pytest.mark.parametrize("line", ["nonsense", "[1]", '{"structure_nat": 1}', '{"tokens": 1, "structure_nat": "a"}'])
def test_a_line_that_is_no_entry_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(f'{{"tokens": 1}}\n{line}\n', encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"log\.jsonl is no training log"):
        read_curves(tmp_path / "log.jsonl")
