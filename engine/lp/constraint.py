"""What every LP is: one automaton for all rows of a tokenizer, and a program for each molecule.

Whoever runs constraints needs this and the table form; the LPs themselves, with their tokenizers, are in ``catalogue``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.lp.table import Automaton, Program

if TYPE_CHECKING:
    from engine.records import Molecule


class Constraint(Protocol):
    name: str
    automaton: Automaton

    def compile(self, molecule: Molecule) -> Program: ...
