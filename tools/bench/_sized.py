"""Models of given shapes with random weights, and some molecules of one size to ask them with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import torch

from engine.chem.enriched import prompt_of
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.decode.body import LiveHead
from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.plan import Request
from engine.lp.constraint import Constraint, build_constraint
from engine.lp.table import Program
from engine.lp.unconstrained import Unconstrained
from engine.text.tokenizers import load_tokenizer
from tools.bench._sides import Side

TOKENIZER_ROWS = {"qwen3": 151_936, "llama3": 128_330}
HEAVY_ATOMS, MOLECULES, POSITIONS = 25, 64, 4_096


@dataclass(frozen=True, slots=True)
class Given:
    """What one tokenizer's models are asked: the first molecules of ``data/molecules.tsv`` with 25 heavy atoms."""

    prompts: tuple[tuple[int, ...], ...]
    constraint: Constraint
    programs: tuple[Program, ...]
    vocab_size: int
    rows: int
    end: int

    @classmethod
    def of(cls, name: str, count: int = MOLECULES) -> Given:
        every = (parse_smiles(entry.smiles) for entry in load_molecule_set())
        chosen = list(islice((one for one in every if one.heavy_atoms == HEAVY_ATOMS), count))
        tokenizer, rows = load_tokenizer(name), TOKENIZER_ROWS[name]
        constraint = build_constraint("exact", tokenizer, rows)
        prompts = tuple(tuple(tokenizer.encode(prompt_of(molecule.smiles))) for molecule in chosen)
        programs = tuple(constraint.compile(molecule) for molecule in chosen)
        assert tokenizer.end_id is not None
        return cls(prompts, constraint, programs, tokenizer.vocab_size, rows, tokenizer.end_id)


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

    def __init__(self, shape: Shape, given: Given, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.given, self.dtype, self.device = shape, given, dtype, device
        self.model = shape.model(given.rows, given.end, device, dtype)
        free = Unconstrained(given.vocab_size, given.rows, (given.end,))
        program = free.compile(None)  # type: ignore[arg-type]  # the same for every molecule
        self.constraints: dict[str, Any] = {"exact": given.constraint, "none": free}
        self.programs = {"exact": given.programs, "none": (program,) * len(given.programs)}

    def backend(self, side: Side) -> FastBackend | HfBackend:
        return side.made(self.model, self.constraints[side.lp], self.given.end, self.given.vocab_size)

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
