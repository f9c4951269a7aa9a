"""What every LP is: one automaton for all rows of a tokenizer, and a program for each molecule.

Whoever runs programs that are compiled already needs the automaton alone. The LPs themselves, with their tokenizers,
are in ``catalogue``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.lp.table import Automaton, Program

if TYPE_CHECKING:
    from engine.records import Molecule


class Ruled(Protocol):
    name: str
    automaton: Automaton


class Constraint(Ruled, Protocol):
    def compile(self, molecule: Molecule) -> Program: ...
