"""The file that ``bench.gpu`` reads: prompts, programs and automata of some molecules, for both tokenizers.

``write`` needs the whole project; ``read`` needs numpy, and what runs without RDKit and tokenizers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.decode.steps import Request
from engine.lp.table import Automaton, Program

TOKENIZER_ROWS = {"qwen3": 151_936, "llama3": 128_330}
HEAVY_ATOMS = 25
MOLECULES = 64
_PARTS = ("forced", "entry", "symbols", "jump", "block")


@dataclass(slots=True, eq=False)
class Given:
    """The rules of programs that were compiled before."""

    automaton: Automaton
    name: str = "exact"


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """One tokenizer's part of the file."""

    smiles: tuple[str, ...]
    prompts: tuple[tuple[int, ...], ...]
    constraint: Given
    programs: tuple[Program, ...]
    vocab_size: int
    rows: int
    end: int

    def requests(self, programs: Sequence[Program], limits: Sequence[int]) -> list[Request]:
        """As many as there are limits, over all molecules and from the first one again."""
        count = len(self.prompts)
        return [
            Request(number, number, self.prompts[number % count], programs[number % count], limit)
            for number, limit in enumerate(limits)
        ]


def write(path: Path, count: int = MOLECULES) -> list[str]:
    """The first molecules of ``data/molecules.tsv`` with 25 heavy atoms; gives their SMILES."""
    from engine.chem.molecule_sets import load_molecule_set
    from engine.chem.smiles import parse_smiles

    every = (parse_smiles(entry.smiles) for entry in load_molecule_set())
    chosen = list(islice((one for one in every if one.heavy_atoms == HEAVY_ATOMS), count))
    arrays: dict[str, Any] = {"smiles": np.array([one.smiles for one in chosen])}
    for name in TOKENIZER_ROWS:
        arrays.update({f"{name}.{key}": value for key, value in _compiled(name, chosen).items()})
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return [one.smiles for one in chosen]


def _compiled(name: str, molecules: Sequence[Any]) -> dict[str, Any]:
    from engine.chem.enriched import prompt_of
    from engine.lp.constraint import build_constraint
    from engine.text.tokenizers import load_tokenizer

    tokenizer = load_tokenizer(name)
    constraint = build_constraint("exact", tokenizer, TOKENIZER_ROWS[name])
    programs = [constraint.compile(molecule) for molecule in molecules]
    prompts = [tokenizer.encode(prompt_of(molecule.smiles)) for molecule in molecules]
    found: dict[str, Any] = {part: np.concatenate([getattr(program, part) for program in programs]) for part in _PARTS}
    automaton = constraint.automaton
    return found | {
        "lengths": np.array(list(map(len, programs))),
        "prompts": np.concatenate(prompts),
        "prompt_lengths": np.array(list(map(len, prompts))),
        "classes": automaton.classes,
        "goto": automaton.goto,
        "move": automaton.move,
        "rules": np.array(automaton.rules),
        "numbers": np.array([tokenizer.vocab_size, TOKENIZER_ROWS[name], tokenizer.end_id]),
    }


def read(path: Path) -> dict[str, Prepared]:
    """By tokenizer."""
    with np.load(path, allow_pickle=False) as arrays:
        smiles = tuple(map(str, arrays["smiles"]))
        return {name: _prepared({key: arrays[f"{name}.{key}"] for key in _KEYS}, smiles) for name in TOKENIZER_ROWS}


_KEYS = (*_PARTS, "lengths", "prompts", "prompt_lengths", "classes", "goto", "move", "rules", "numbers")


def _prepared(arrays: Mapping[str, NDArray[Any]], smiles: tuple[str, ...]) -> Prepared:
    automaton = Automaton(arrays["classes"], arrays["goto"], arrays["move"], tuple(map(str, arrays["rules"])))
    vocab_size, rows, end = arrays["numbers"].tolist()
    parts = zip(*(_split(arrays[part], arrays["lengths"]) for part in _PARTS), strict=True)
    prompts = tuple(tuple(one.tolist()) for one in _split(arrays["prompts"], arrays["prompt_lengths"]))
    programs = tuple(Program(*given) for given in parts)
    return Prepared(smiles, prompts, Given(automaton), programs, vocab_size, rows, end)


def _split(joined: NDArray[Any], lengths: NDArray[Any]) -> Iterator[NDArray[Any]]:
    yield from np.split(joined, np.cumsum(lengths)[:-1])
