"""Stand-ins for measured models: answers that are reference texts, and a log such as a training writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from engine.records import TRIMMED4
from engine.text.placeholder import reference_texts
from engine.text.tokenizers import TextTokenizer
from tools.training.card import TrainingFacts
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
        self.asked: list[dict[str, Any]] = []
        self.device = torch.device("cpu")
        self.config = SimpleNamespace(vocab_size=tokenizer.vocab_size)
        self.generation_config = SimpleNamespace(eos_token_id=tokenizer.end_id, suppress_tokens=None)

    def to(self, device: torch.device) -> None:
        assert device.type in ("cpu", "cuda")

    def num_parameters(self) -> int:
        return 12_345

    def generate(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **options: Any) -> torch.Tensor:
        self.asked.append({"rows": len(input_ids), **options})
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


def write_log(path: Path, entries: Sequence[dict[str, Any]] | None = None) -> Path:
    """A log of a training that learns; its tokens reach 2 million."""
    made: list[dict[str, Any]] = []
    for step in range(1, 41):
        place = {"tokens": 50_000 * step, "texts": 280 * step, "step": 25 * step, "spent_s": 90.0 * step}
        made.append({**place, "structure_nat": 11 * 0.8**step, "numbers_nat": 0.7 + 9 * 0.7**step, "rate": 1e-3})
        if step % 8 == 0:
            made.append({**place, "pass_rate": step / 50, "right": [step], "asked": [50], "stereo_rate": step / 80})
    lines = [json.dumps(entry) for entry in (made if entries is None else entries)]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path
