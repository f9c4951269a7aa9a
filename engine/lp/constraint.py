"""What every LP is: one automaton for all rows of a tokenizer, and a program for each molecule; and how to make it.

An LP is a file next to this one with ``build(name, tokenizer, vocab_rows, parameters)``; its record in
``engine.lp_records`` names the file. Code that runs compiled programs needs the automaton alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from engine.errors import ConstraintError
from engine.lp.table import Automaton, Program
from engine.lp_records import lp_record
from engine.records import TRIMMED4, NumberFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.records import Molecule
    from engine.text.tokenizers import TextTokenizer


class HasAutomaton(Protocol):
    name: str
    automaton: Automaton


class Constraint(HasAutomaton, Protocol):
    def compile(self, molecule: Molecule) -> Program: ...


def check_rows(constraint: HasAutomaton, rows: int) -> None:
    """``rows`` are the model's."""
    built_for = len(constraint.automaton.classes)
    if rows != built_for:
        raise ConstraintError(
            f"the model has {rows:,} rows, the constraint was built for {built_for:,}",
            "Build it with the model's own number of rows",
        )


def end_of(tokenizer: TextTokenizer) -> int:
    """The token that a program ends with."""
    if tokenizer.end_id is None:
        raise ConstraintError(f"{tokenizer!r} has no token that ends a text", "Use another tokenizer")
    return tokenizer.end_id


@dataclass(frozen=True, slots=True)
class LpParameters:
    """What a user may choose. An empty placeholder means the LP's own.

    ``never_end`` takes the end token from ``none``, whose texts then stop at their limits: work of equal length.
    ``conformers`` are those of one answer, ``conformers_before`` those of the prompt's examples.
    """

    placeholder: str = ""
    form: NumberFormat = TRIMMED4
    never_end: bool = False
    conformers: int = 1
    conformers_before: int = 0


def build_constraint(
    name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters | None = None
) -> Constraint:
    """The constraint for a model with this tokenizer and so many rows."""
    record, chosen = lp_record(name), parameters or LpParameters()
    record.check_form(chosen.form)
    record.check_conformers(chosen.conformers)
    build: Callable[..., Constraint] = import_module(record.module).build
    chosen = replace(chosen, placeholder=record.placeholder_of(chosen.form, chosen.placeholder))
    return build(record.name, tokenizer, vocab_rows, chosen)
