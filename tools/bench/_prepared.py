"""Prompts, programs and automata of some molecules, for both tokenizers, and models of given shapes, random weights.

``write`` needs the whole project; ``read`` needs numpy, and what runs without RDKit and tokenizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from engine.decode.head import LiveHead
from engine.decode.steps import Request
from engine.lp.table import Automaton, Program
from engine.lp.unconstrained import Unconstrained

TOKENIZER_ROWS = {"qwen3": 151_936, "llama3": 128_330}
HEAVY_ATOMS, MOLECULES, POSITIONS = 25, 64, 4_096
PARTS = ("forced", "entry", "symbols", "jump", "block")
KEYS = (*PARTS, "lengths", "prompts", "prompt_lengths", "classes", "goto", "move", "rules", "numbers")


@dataclass(slots=True, eq=False)
class Given:
    """The rules of programs that were compiled before."""

    automaton: Automaton
    name: str = "exact"


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """One tokenizer's part of the file."""

    prompts: tuple[tuple[int, ...], ...]
    constraint: Given
    programs: tuple[Program, ...]
    vocab_size: int
    rows: int
    end: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's body and its vocabulary."""

    name: str
    family: Literal["qwen3", "llama"]
    tokenizer: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int

    def model(self, rows: int, end: int, device: torch.device, dtype: torch.dtype) -> Any:
        """With random weights; head and embedding are one."""
        from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

        kinds: Any = (Qwen3Config, Qwen3ForCausalLM) if self.family == "qwen3" else (LlamaConfig, LlamaForCausalLM)
        config = kinds[0](
            vocab_size=rows,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim,
            intermediate_size=self.inner,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            attention_bias=False,
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=end,
        )
        torch.manual_seed(0)
        with device:
            return kinds[1](config).to(dtype).eval()


class SizedModel:
    """One shape's model, and what it is asked with: the exact LP's programs, or without an LP ones that never end."""

    def __init__(self, shape: Shape, given: Prepared, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.given, self.dtype, self.device = shape, given, dtype, device
        self.model = shape.model(given.rows, given.end, device, dtype)
        free = Unconstrained(given.vocab_size, given.rows, (given.end,))
        program = free.compile(None)  # type: ignore[arg-type]  # the same for every molecule
        self.constraints: dict[str, Any] = {"exact": given.constraint, "none": free}
        self.programs = {"exact": given.programs, "none": (program,) * len(given.programs)}

    def requests(self, lp: str, limits: Sequence[int]) -> list[Request]:
        """As many as there are limits, over all molecules and from the first one again."""
        prompts, programs, count = self.given.prompts, self.programs[lp], len(self.given.prompts)
        return [
            Request(number, number, prompts[number % count], programs[number % count], limit)
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


def write(path: Path, count: int = MOLECULES) -> list[str]:
    """The first molecules of ``data/molecules.tsv`` with 25 heavy atoms; gives their SMILES."""
    from engine.chem.enriched import prompt_of
    from engine.chem.molecule_sets import load_molecule_set
    from engine.chem.smiles import parse_smiles
    from engine.lp.constraint import build_constraint
    from engine.text.tokenizers import load_tokenizer

    every = (parse_smiles(entry.smiles) for entry in load_molecule_set())
    chosen = list(islice((one for one in every if one.heavy_atoms == HEAVY_ATOMS), count))
    arrays: dict[str, Any] = {}
    for name, rows in TOKENIZER_ROWS.items():
        tokenizer = load_tokenizer(name)
        constraint = build_constraint("exact", tokenizer, rows)
        programs = [constraint.compile(molecule) for molecule in chosen]
        prompts = [tokenizer.encode(prompt_of(molecule.smiles)) for molecule in chosen]
        automaton = constraint.automaton
        found: dict[str, Any] = {part: np.concatenate([getattr(one, part) for one in programs]) for part in PARTS}
        found |= {
            "lengths": np.array(list(map(len, programs))),
            "prompts": np.concatenate(prompts),
            "prompt_lengths": np.array(list(map(len, prompts))),
            "classes": automaton.classes,
            "goto": automaton.goto,
            "move": automaton.move,
            "rules": np.array(automaton.rules),
            "numbers": np.array([tokenizer.vocab_size, rows, tokenizer.end_id]),
        }
        arrays |= {f"{name}.{key}": value for key, value in found.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return [one.smiles for one in chosen]


def read(path: Path) -> dict[str, Prepared]:
    """By tokenizer."""
    prepared = {}
    with np.load(path, allow_pickle=False) as arrays:
        for name in TOKENIZER_ROWS:
            of = {key: arrays[f"{name}.{key}"] for key in KEYS}

            def split(part: str, lengths: str, of: dict[str, NDArray[Any]] = of) -> list[NDArray[Any]]:
                return np.split(of[part], np.cumsum(of[lengths])[:-1])

            automaton = Automaton(of["classes"], of["goto"], of["move"], tuple(map(str, of["rules"])))
            programs = zip(*(split(part, "lengths") for part in PARTS), strict=True)
            prompts = tuple(tuple(one.tolist()) for one in split("prompts", "prompt_lengths"))
            numbers = of["numbers"].tolist()
            prepared[name] = Prepared(prompts, Given(automaton), tuple(Program(*one) for one in programs), *numbers)
    return prepared
