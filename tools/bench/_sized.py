"""Models of given shapes with random weights, and some molecules of one size to ask them with."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from engine.chem.enriched import prompt_of
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.decode.body import LiveHead
from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.plan import Request
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.unconstrained import Unconstrained
from engine.records import TRIMMED4, NumberFormat
from engine.text.tokenizer_build import folder_of
from engine.text.tokenizers import load_tokenizer
from tools.bench._sides import Side
from tools.training.shapes import ModelShape

TOKENIZERS = {"qwen3": ("qwen3", 151_936), "llama": ("llama3", 128_330)}
"""Of each family, with the rows of its models."""
HEAVY_ATOMS, MOLECULES = 25, 64


@dataclass(frozen=True, slots=True)
class Shape(ModelShape):
    name: str = ""
    head_dim: int = 64


class SizedModel:
    """One shape's model, and what it is asked with: the first molecules of ``data/molecules.tsv`` with 25 heavy atoms,
    under the exact LP, or without an LP by programs that never end."""

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype, count: int = MOLECULES) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.tokenizer_name, self.rows = TOKENIZERS[shape.family]
        every = (parse_smiles(entry.smiles) for entry in load_molecule_set())
        self.molecules = list(islice((molecule for molecule in every if molecule.heavy_atoms == HEAVY_ATOMS), count))
        self.ask(self.tokenizer_name, TRIMMED4)
        config = shape.config(self.rows, end=self.end)
        config.head_dim = shape.head_dim
        torch.manual_seed(0)
        with device:
            self.model: Any = shape.model(config).to(dtype).eval()

    def ask(self, tokenizer_name: str, form: NumberFormat) -> None:
        """In numbers of this form, from now on."""
        tokenizer = load_tokenizer(tokenizer_name)
        self.end, self.vocab_size = tokenizer.end_id or 0, tokenizer.vocab_size
        self.prompts = [tuple(tokenizer.encode(prompt_of(molecule.smiles))) for molecule in self.molecules]
        free = Unconstrained(self.vocab_size, self.rows, (self.end,))
        exact = build_constraint("exact", tokenizer, self.rows, LpParameters(form=form))
        self.constraints: dict[str, Any] = {"exact": exact, "none": free}
        self.programs = {lp: list(map(made.compile, self.molecules)) for lp, made in self.constraints.items()}

    def in_form(self, tokenizer_name: str, form: NumberFormat) -> SizedModel:
        """The same weights and molecules, asked in numbers of another form."""
        other = copy.copy(self)
        other.ask(tokenizer_name, form)
        return other

    def backend(self, side: Side) -> FastBackend | HfBackend:
        return side.made(self.model, self.constraints[side.lp], self.end, self.vocab_size)

    def requests(self, lp: str, limits: Sequence[int]) -> list[Request]:
        """As many as there are limits, over all molecules and from the first one again."""
        programs, count = self.programs[lp], len(self.prompts)
        return [
            Request(number, number, self.prompts[number % count], programs[number % count], limit)
            for number, limit in enumerate(limits)
        ]

    @property
    def layer_weights(self) -> int:
        return sum(weight.numel() for weight in self.model.model.layers.parameters())

    def must_read(self, lp: str, seen_per_pass: float) -> float:
        """Bytes of a pass: the layers, the head's rows that are used, keys and values of what each token sees."""
        per_token = 2 * self.shape.layers * self.shape.kv_heads * self.shape.head_dim
        weight = self.model.get_output_embeddings().weight
        head = len(LiveHead(weight, self.constraints[lp].automaton, self.programs[lp]).ids) * self.shape.width
        return self.dtype.itemsize * (self.layer_weights + head + seen_per_pass * per_token)


def saved_model(shape: Shape, dtype: torch.dtype, folder: Path) -> None:
    """A folder of random weights of this shape with its tokenizer, as other engines load it."""
    name, rows = TOKENIZERS[shape.family]
    config = shape.config(rows, end=load_tokenizer(name).end_id or 0)
    config.head_dim = shape.head_dim
    torch.manual_seed(0)
    shape.model(config).to(dtype).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(folder_of(name) / file, folder / file)
