"""Conformers of heavy atoms as plain data: a canonical SMILES and coordinates in the order of its atoms.

Hydrogens are removed as the group does: ``Chem.RemoveHs``, then ``MolToSmiles``, with the stereo that the molecule
itself states. What this module does not know: whether the coordinates have that stereo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from rdkit import Chem

from engine.chem.frame import Array, add_conformer, check_finite
from engine.chem.rdkit_log import captured_log, matching
from engine.chem.smiles import (
    MOST_CHARACTERS,
    MOST_HEAVY_ATOMS,
    canonical_order,
    graph_key,
    read_text_order,
    same_graph,
)
from engine.errors import ConformerError, DriftscopeError, GraphMismatchError, MoleculeSizeError, shown

MOST_KEPT = 4_096


@dataclass(frozen=True, slots=True)
class HeavyConformer:
    """One conformer as a file has it."""

    smiles: str  # canonical, hydrogens suppressed
    xyz: Array = field(compare=False, repr=False)  # [atoms of the SMILES, 3]
    source: str = ""  # the file, and where in it
    key: str = ""  # the SMILES that the file names for it; empty: its own
    weight: float | None = None


class OmittedConformer(NamedTuple):
    """One that cannot be used, and why."""

    source: str
    key: str
    reason: str


def heavy_conformers(mol: Chem.Mol) -> tuple[str, list[Array]]:
    """Canonical SMILES of the molecule without hydrogens, and the coordinates of each conformer in the text's order."""
    with captured_log():
        try:
            heavy = Chem.RemoveHs(mol)
            smiles, order = canonical_order(heavy)
        except (RuntimeError, ValueError, KeyError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConformerError(f"its hydrogens cannot be removed: {reason}") from error
    if not order:
        raise ConformerError("it has no atoms")
    return smiles, [conformer.GetPositions()[order] for conformer in heavy.GetConformers()]


def check_coordinates(xyz: Array) -> None:
    check_finite(xyz)
    if len(xyz) > 1 and not np.ptp(xyz, axis=0).any():
        raise ConformerError("it has no coordinates: all atoms lie in one place")


@lru_cache(MOST_KEPT)
def settled_smiles(text: str) -> str:
    """Canonical SMILES that stays as it is when it is read and written again, which RDKit's first one may not."""
    if len(text) > MOST_CHARACTERS:
        raise MoleculeSizeError(f"its SMILES has {len(text):,} characters, the limit is {MOST_CHARACTERS:,}")
    mol = read_text_order(text.strip())
    if mol.GetNumHeavyAtoms() > MOST_HEAVY_ATOMS:
        raise MoleculeSizeError(f"it has {mol.GetNumHeavyAtoms()} heavy atoms, the limit is {MOST_HEAVY_ATOMS}")
    before, smiles = "", graph_key(mol)
    for _ in range(4):
        if smiles != before:
            before, smiles = smiles, graph_key(read_text_order(smiles))
    return smiles


@lru_cache(MOST_KEPT)
def _order_in(smiles: str, own: str) -> list[int]:
    """For each atom of ``smiles``, a settled one, its place in ``own``, another SMILES of the same molecule."""
    wanted, given = read_text_order(smiles), read_text_order(own)
    if smiles == own:
        return list(range(wanted.GetNumAtoms()))
    if not same_graph(wanted, given):
        raise GraphMismatchError(f"its graph is {shown(own, 200)}, which is not its key's {shown(smiles, 200)}")
    with matching():
        match = given.GetSubstructMatch(wanted, useChirality=True) or given.GetSubstructMatch(wanted)
    if len(match) != given.GetNumAtoms():
        raise GraphMismatchError(f"its atoms cannot be matched with those of {shown(smiles, 200)}")
    return list(match)


def under_its_key(conformer: HeavyConformer) -> tuple[str, Array] | OmittedConformer:
    """The molecule that it is filed under, and its coordinates in the order of that SMILES."""
    try:
        smiles = settled_smiles(conformer.key or conformer.smiles)
        order, xyz = _order_in(smiles, conformer.smiles), np.asarray(conformer.xyz, dtype=np.float64)
        if xyz.shape != (len(order), 3):
            raise ConformerError(f"coordinates have shape {xyz.shape}, its SMILES has {len(order)} atoms")
        check_coordinates(xyz)
    except DriftscopeError as error:
        return OmittedConformer(conformer.source, conformer.key or conformer.smiles, error.what)
    return smiles, np.ascontiguousarray(xyz[order])


def molecule_with(smiles: str, conformers: Sequence[Array]) -> Chem.Mol:
    """The molecule of a SMILES, atoms in text order, with these conformers."""
    mol = read_text_order(smiles)
    for xyz in conformers:
        add_conformer(mol, xyz)
    return mol
