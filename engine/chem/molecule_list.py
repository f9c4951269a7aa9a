"""A long list of molecules in little memory: their texts and sizes. Each is parsed anew where it is asked for.

A parsed molecule takes some 20 KB, so a million of them would take 20 GB. What this module does not know: files, runs.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.chem.smiles import parse_smiles
from engine.records import Molecule

KEPT = 4_096
"""Parsed molecules that are kept, since the same ones may stand in a list many times."""


class MoleculeList(Sequence[Molecule]):
    """Grows by ``append`` only. ``parse`` is what made a molecule of its text, and does so again."""

    def __init__(self, parse: Callable[[str], Molecule] = parse_smiles) -> None:
        self._parse = functools.lru_cache(KEPT)(parse)
        self._texts: list[str] = []
        self.smiles: list[str] = []
        self.heavy_atoms = array("H")

    @classmethod
    def of(cls, texts: Iterable[str], parse: Callable[[str], Molecule]) -> MoleculeList:
        made = cls(parse)
        for text in texts:
            made.append(text, made._parse(text))
        return made

    def append(self, text: str, molecule: Molecule) -> None:
        """``molecule`` is what ``parse`` makes of the text."""
        self._texts.append(text)
        self.smiles.append(text if text == molecule.smiles else molecule.smiles)
        self.heavy_atoms.append(molecule.heavy_atoms)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: Any) -> Any:
        texts = self._texts[place]
        return self._parse(texts) if isinstance(texts, str) else list(map(self._parse, texts))


def smiles_of(molecules: Sequence[Molecule]) -> Sequence[str]:
    """Of each, without parsing those of a `MoleculeList`."""
    return molecules.smiles if isinstance(molecules, MoleculeList) else [molecule.smiles for molecule in molecules]


def heavy_atoms_of(molecules: Sequence[Molecule]) -> Sequence[int]:
    """The same for their sizes."""
    if isinstance(molecules, MoleculeList):
        return molecules.heavy_atoms
    return [molecule.heavy_atoms for molecule in molecules]
