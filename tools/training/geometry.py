"""How far a generated conformer is from reference ones: least RMSD and bond lengths, beside what chance would give.

References are ETKDGv3's. Two yardsticks stand beside the model's RMSD: a random chain, which knows the bonds and
nothing else, and one more ETKDGv3 conformer, about the best that can be hoped for. What this module does not know:
models, and whether ETKDGv3 is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.frame import add_conformer
from engine.chem.rmsd import least_rmsd
from engine.records import Molecule
from tools.training.molecule_sets import EMBED_SECONDS, draw

REFERENCES = 20
CHAIN_STEP_ANG = 1.5
LEAST_BOND_ANG, MOST_BOND_ANG, BOND_STEP_ANG = 0.8, 2.6, 0.05
BOND_EDGES_ANG = tuple(
    round(LEAST_BOND_ANG + step * BOND_STEP_ANG, 2)
    for step in range(round((MOST_BOND_ANG - LEAST_BOND_ANG) / BOND_STEP_ANG) + 1)
)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """One molecule. RMSDs are the least ones to the references; ``etkdg_ang`` is None where no more embedded."""

    model_ang: float
    chain_ang: float
    etkdg_ang: float | None
    bonds: Array  # [bonds, 3] lengths: generated, in the first reference, mean of the references


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bonds by length between ``BOND_EDGES_ANG``; a bin holds its lower edge."""

    below: int
    counts: list[int]
    above: int

    @property
    def outside(self) -> int:
        return self.below + self.above


@dataclass(frozen=True, slots=True)
class BondLengths:
    """Bonds of all molecules. Deviations are means of absolute ones, each from its own bond's mean reference length."""

    bonds: int
    generated: Histogram
    reference: Histogram  # the first reference conformer of each molecule
    deviation_ang: float | None
    reference_deviation_ang: float | None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "edges_ang": list(BOND_EDGES_ANG)}


def distances(generated: Chem.Mol, molecule: Molecule, seed: int = 0, references: int = REFERENCES) -> Distances:
    """The distances of a generated conformer of the same graph, atoms in any order; ``DriftscopeError`` without any."""
    embedded = reference_conformers(molecule, references + 1, seed=seed, max_seconds=EMBED_SECONDS)
    ids = [conformer.GetId() for conformer in embedded.GetConformers()]
    known, more = ids[:references], ids[references:]
    ensemble = _with_conformers(embedded, known)
    return Distances(
        least_rmsd(generated, ensemble),
        least_rmsd(random_chain(molecule, seed), ensemble),
        least_rmsd(_with_conformers(embedded, more), ensemble) if more else None,
        _bond_lengths(generated, ensemble),
    )


def random_chain(molecule: Molecule, seed: int = 0) -> Chem.Mol:
    """The molecule with each atom 1.5 angstrom from one that it is bonded to, in a random direction.

    The bonded atom is the last one before it in the text; the first atom of a fragment follows the atom before it.
    """
    random = np.random.Generator(np.random.PCG64(draw("random chain", str(seed), molecule.smiles)))
    mol = Chem.Mol(molecule.mol)
    mol.RemoveAllConformers()
    steps = random.standard_normal((mol.GetNumAtoms(), 3))
    steps *= CHAIN_STEP_ANG / np.linalg.norm(steps, axis=1, keepdims=True)
    xyz = np.zeros_like(steps)
    for atom in range(1, len(xyz)):
        earlier = [other.GetIdx() for other in mol.GetAtomWithIdx(atom).GetNeighbors() if other.GetIdx() < atom]
        xyz[atom] = xyz[max(earlier, default=atom - 1)] + steps[atom]
    add_conformer(mol, xyz)
    return mol


def bond_lengths(tables: Sequence[Array]) -> BondLengths:
    """The bonds of all molecules together, from the tables of their ``Distances``."""
    lengths = np.concatenate([*tables, np.zeros((0, 3))])  # [bonds, 3]
    generated, reference, mean = lengths.T
    return BondLengths(
        len(lengths),
        _histogram(generated),
        _histogram(reference),
        _mean(np.abs(generated - mean)),
        _mean(np.abs(reference - mean)),
    )


def _with_conformers(mol: Chem.Mol, wanted: Iterable[int]) -> Chem.Mol:
    picked = Chem.Mol(mol)
    picked.RemoveAllConformers()
    for conformer in wanted:
        picked.AddConformer(mol.GetConformer(conformer), assignId=True)
    return picked


def _bond_lengths(generated: Chem.Mol, ensemble: Chem.Mol) -> Array:
    """[bonds, 3]; no row where the atoms cannot be told, as with hydrogens that only one of the two writes."""
    atom_of = generated.GetSubstructMatch(ensemble)
    pairs = np.array([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in ensemble.GetBonds()], dtype=np.intp)
    if not atom_of or not len(pairs):
        return np.zeros((0, 3))
    lengths = _lengths(generated.GetConformer().GetPositions()[list(atom_of)], pairs)
    reference_lengths = np.stack(
        [_lengths(conformer.GetPositions(), pairs) for conformer in ensemble.GetConformers()]
    )  # [conformers, bonds]
    return np.stack((lengths, reference_lengths[0], reference_lengths.mean(axis=0)), axis=1)


def _lengths(xyz: Array, pairs: NDArray[np.intp]) -> Array:
    return np.asarray(np.linalg.norm(xyz[pairs[:, 0]] - xyz[pairs[:, 1]], axis=1), dtype=np.float64)


def _histogram(lengths: Array) -> Histogram:
    # In bins by number: numpy's own histogram counts the last edge into the last bin.
    counts = np.bincount(np.searchsorted(BOND_EDGES_ANG, lengths, side="right"), minlength=len(BOND_EDGES_ANG) + 1)
    below, *inside, above = counts.tolist()
    return Histogram(below, inside, above)


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
