"""Molecules as requests: what the model is shown, how long an answer may become, what keys its randomness."""

from __future__ import annotations

from collections.abc import Sequence

from engine.chem.enriched import prompt_of
from engine.decode.steps import Request
from engine.errors import ConstraintError, shown
from engine.lp.constraint import Constraint
from engine.lp.table import Program
from engine.records import Molecule
from engine.text.tokenizers import TextTokenizer

TOKENS_AROUND, TOKENS_AN_ATOM = 64, 32
"""The default limit of an answer: an atom and its block take some 25 tokens."""
_GENERATION = 32
"""Bits of a key below the generation's number: the same molecule's n-th answer is the same whatever n goes up to."""


def default_limit(heavy_atoms: int) -> int:
    return TOKENS_AROUND + TOKENS_AN_ATOM * heavy_atoms


def requests_for(
    molecules: Sequence[Molecule],
    constraint: Constraint,
    tokenizer: TextTokenizer,
    *,
    positions: int,
    generations: int = 1,
    limits: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
    begin: Sequence[int] = (),
) -> list[Request]:
    """``generations`` requests a molecule, one molecule after the other; ``positions`` is the model's context.

    Prompts begin with ``begin``. ``numbers`` are the molecules' places in a longer list, which name their samples and
    key their draws. The same ``Molecule`` may be in the list many times, and is compiled once.
    """
    requests = []
    compiled: dict[int, tuple[tuple[int, ...], Program]] = {}  # by identity
    for place, molecule in enumerate(molecules):
        number = place if numbers is None else numbers[place]
        if id(molecule) not in compiled:
            written = (*begin, *tokenizer.encode(prompt_of(molecule.smiles)))
            compiled[id(molecule)] = written, constraint.compile(molecule)
        prompt, program = compiled[id(molecule)]
        if len(prompt) >= positions:
            raise ConstraintError(
                f"the prompt of {shown(molecule.smiles)} has {len(prompt):,} tokens, the model's context {positions:,}",
                "Leave this molecule out, or take a model with a longer context",
            )
        limit = min(default_limit(molecule.heavy_atoms) if limits is None else limits[place], positions - len(prompt))
        requests += [
            Request(number * generations + generation, number | generation << _GENERATION, prompt, program, limit)
            for generation in range(generations)
        ]
    return requests
