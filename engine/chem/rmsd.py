"""Heavy-atom RMSD over symmetry: the least root mean square distance over rotations, translations and symmetries.

Symmetries are what ``rdMolAlign.GetBestRMS`` takes: atoms match by element and isotope, stereo is not looked at, and
terminal O and N of a conjugated group (carboxyl, nitro, amidine, phosphate) may swap. A molecule without heavy atoms is
compared on all its atoms. Beyond ``max_matches`` symmetries the value is an upper bound, and said so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem.rdMolAlign import GetBestRMS

from engine.chem.conformers import reference_conformers
from engine.chem.frame import Array
from engine.chem.geometry import CONJUGATED_ENDS
from engine.chem.rdkit_log import captured_log, matching
from engine.chem.smiles import flat_smiles
from engine.errors import ConformerError, GraphMismatchError, shown
from engine.records import Molecule

MAX_MATCHES = 10_000
_BLOCK = 8_192  # pairs and their matches aligned at once: they stay in the processor's cache
_NEAR = 1e-4  # of the squares of both
_MOST_STEPS, _SMALL_STEP, _LEAST_SLOPE = 20, 1e-9, 1e-3


def rmsd_matrix(
    probes: Chem.Mol | Sequence[Chem.Mol], references: Chem.Mol, *, max_matches: int = 1_000
) -> tuple[Array, bool]:
    """The RMSD of every conformer of the probes, atom orders free, to every one of the references, in angstrom
    [probes, references]; and whether all symmetries were tried. Moves no molecule."""
    first = _heavy(references)
    matches, is_complete = _matches(first, first, max_matches)
    stacks = [
        xyz[:, _matches(heavy, first, 1)[0][0]]
        for heavy in map(_heavy, [probes] if isinstance(probes, Chem.Mol) else probes)
        for xyz in [_positions(heavy)]
    ]
    return _least(np.ascontiguousarray(np.concatenate(stacks)), _positions(first), matches), is_complete


def index_rmsd_matrix(probes: Chem.Mol | Sequence[Chem.Mol], references: Chem.Mol) -> Array:
    """The same with atoms matched by index, as ``AlignMol`` does: no symmetry is tried, so it is at least the other.
    Probes in another order of atoms are first brought into that of the references, by any one match."""
    first = _heavy(references)
    by_index = np.arange(first.GetNumAtoms())
    stacks = []
    for heavy in map(_heavy, [probes] if isinstance(probes, Chem.Mol) else probes):
        order = by_index if _is_alike(heavy, first) else _matches(heavy, first, 1)[0][0]
        stacks.append(_positions(heavy)[:, order])  # [conformers, atoms, 3]
    return _least(np.ascontiguousarray(np.concatenate(stacks)), _positions(first), by_index[None])


def _is_alike(probe: Chem.Mol, reference: Chem.Mol) -> bool:
    """Whether their atoms are in one order."""
    graphs = [
        (
            [(atom.GetAtomicNum(), atom.GetIsotope()) for atom in mol.GetAtoms()],
            {tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))) for bond in mol.GetBonds()},
        )
        for mol in (probe, reference)
    ]
    return graphs[0] == graphs[1]


def clustered_conformers(molecule: Molecule, count: int) -> Chem.Mol:
    """A copy with ``count`` conformers, or fewer if fewer were found: the baseline that any model of conformers is held
    against (arXiv 2302.07061), medoids of several times as many by ETKDGv3, of which nothing is relaxed. Their seed is
    not that of references by ETKDG, so that no conformer is on both sides."""
    pool = reference_conformers(molecule, max(min(5 * count, 200), 2 * count), seed=1, max_seconds=120.0)
    ids = np.array([conformer.GetId() for conformer in pool.GetConformers()])
    if len(ids) > count:
        distances, _ = rmsd_matrix(pool, pool, max_matches=100)
        for conformer in np.delete(ids, medoids(distances, count)).tolist():
            pool.RemoveConformer(conformer)
    return pool


def medoids(distances: Array, count: int) -> list[int]:
    """The indices of the ``count`` points that are the middle of their clusters; distances are [points, points].

    Greedy to begin with, each taking away most of the distance that is left; then the clusters and their middles in
    turn, until neither changes.
    """
    chosen = [int(distances.sum(axis=0).argmin())]
    while len(chosen) < count:
        gain = np.maximum(distances[:, chosen].min(axis=1)[:, None] - distances, 0.0).sum(axis=0)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
    for _ in range(50):
        cluster = distances[:, chosen].argmin(axis=1)
        cluster[chosen] = np.arange(count)  # points in one place: each stays in its own
        clusters = [np.flatnonzero(cluster == number) for number in range(count)]
        chosen = [int(members[distances[np.ix_(members, members)].sum(axis=0).argmin()]) for members in clusters]
    return sorted(chosen)


def nearest(probe: Chem.Mol, ensemble: Chem.Mol) -> tuple[int, float]:
    """The id of the ensemble's conformer that is nearest to the probe's first one, and its RMSD in angstrom."""
    values = rmsd_matrix(probe, ensemble)[0][0]
    index = int(values.argmin())
    return int(ensemble.GetConformers()[index].GetId()), float(values[index])


def least_rmsd(probes: Chem.Mol, ensemble: Chem.Mol) -> float:
    """Of the probe's conformers to the nearest one of the ensemble, on average."""
    return float(rmsd_matrix(probes, ensemble)[0].min(axis=1).mean())


def differences(conformers: Sequence[Chem.Mol]) -> tuple[float, float] | None:
    """The least and the mean RMSD over all pairs of them, atom orders free; None for fewer than two."""
    pairs = [
        float(ang)
        for number, conformer in enumerate(conformers[:-1], 1)
        for ang in rmsd_matrix(conformers[number:], conformer)[0][:, 0]
    ]
    return (min(pairs), sum(pairs) / len(pairs)) if pairs else None


def superpose(probe: Chem.Mol, reference: Chem.Mol, *, probe_conf: int = -1) -> tuple[Chem.Mol, float]:
    """The probe's heavy atoms in that conformer alone, moved to where they lie best on the reference; and the RMSD."""
    moved = _heavy(Chem.Mol(probe, confId=probe.GetConformer(probe_conf).GetId()))
    with matching():
        return moved, float(GetBestRMS(moved, _heavy(reference), maxMatches=MAX_MATCHES))


def _heavy(mol: Chem.Mol) -> Chem.Mol:
    """A copy without hydrogens, deuterium included; a molecule of hydrogens alone stays whole."""
    with captured_log():
        return Chem.RemoveAllHs(mol) if mol.GetNumHeavyAtoms() else Chem.Mol(mol)


def _positions(mol: Chem.Mol) -> Array:
    """Of all conformers [conformers, atoms, 3]."""
    xyz = np.stack([conformer.GetPositions() for conformer in mol.GetConformers()])
    if not np.isfinite(xyz).all():
        raise ConformerError("a coordinate is not finite", "Coordinates must be finite")
    return xyz


def _matches(probe: Chem.Mol, reference: Chem.Mol, most: int) -> tuple[NDArray[np.intp], bool]:
    """For each symmetry the probe's atom for each atom of the reference [matches, atoms], and whether these are all."""
    texts = flat_smiles(probe), flat_smiles(reference)
    matches: Sequence[Sequence[int]] = ()
    if texts[0] == texts[1]:
        loosened = _loosened(probe), _loosened(reference)
        with matching():
            matches = loosened[0].GetSubstructMatches(loosened[1], uniquify=False, maxMatches=most + 1)
    if not matches:
        raise GraphMismatchError(f"{shown(texts[0])} and {shown(texts[1])} are different graphs")
    return np.array(matches[:most], dtype=np.intp), len(matches) <= most


def _loosened(mol: Chem.Mol) -> Chem.Mol:
    """A copy in which the terminal atoms of conjugated groups are equal, as RDKit's own search has them."""
    loose = Chem.RWMol(mol)
    with matching():
        ends = mol.GetSubstructMatches(CONJUGATED_ENDS, uniquify=False, maxMatches=10 * mol.GetNumAtoms())
    for terminal, centre in ends:
        loose.GetAtomWithIdx(terminal).SetFormalCharge(0)
        loose.GetBondBetweenAtoms(terminal, centre).SetBondType(Chem.BondType.SINGLE)
    return loose


def _least(probes: Array, references: Array, matches: NDArray[np.intp]) -> Array:
    """Least RMSD of each probe [p, n, 3] to each reference [r, n, 3] over the matches [m, n]: [p, r]."""
    probes = probes - probes.mean(axis=1, keepdims=True)
    references = references - references.mean(axis=1, keepdims=True)
    at_once = max(1, _BLOCK // (len(references) * min(len(matches), _BLOCK)))
    parts = [
        _least_of_block(probes[start : start + at_once], references, matches)
        for start in range(0, len(probes), at_once)
    ]
    return np.concatenate(parts)


def _least_of_block(probes: Array, references: Array, matches: NDArray[np.intp]) -> Array:
    overlap, chosen = _best_matches(probes, references, matches)
    spread = (probes**2).sum(axis=(1, 2))[:, None] + (references**2).sum(axis=(1, 2))
    square = spread - 2 * overlap  # [p, r] sums of squared distances
    near = np.nonzero(square <= _NEAR * spread)  # differences of large numbers lose digits there
    values: Array = np.sqrt(np.maximum(square, 0.0) / probes.shape[1])
    mobile = np.take_along_axis(probes[near[0]], matches[chosen[near]][..., None], axis=1)  # [near, n, 3]
    goal = references[near[1]]  # [near, n, 3]
    left, _, right = np.linalg.svd(mobile.swapaxes(-1, -2) @ goal)
    left[..., 2] *= np.where(np.linalg.det(left @ right) < 0, -1.0, 1.0)[..., None]  # no mirror image
    values[near] = np.sqrt(((mobile @ (left @ right) - goal) ** 2).sum(axis=-1).mean(axis=-1))
    return values


def _best_matches(probes: Array, references: Array, matches: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp]]:
    """The largest overlap with each reference that a match and a rotation reach, and that match: both [p, r]."""
    shape = len(probes), len(references)
    best, chosen = np.full(shape, -np.inf), np.zeros(shape, dtype=np.intp)
    goals = references.transpose(1, 0, 2).reshape(references.shape[1], -1)  # [n, r * 3]
    at_once = max(1, _BLOCK // len(references))
    for start in range(0, len(matches), at_once):
        block = probes[:, matches[start : start + at_once]].swapaxes(-1, -2)  # [p, m, 3, n]
        overlaps = (block.reshape(-1, block.shape[-1]) @ goals).reshape(*block.shape[:3], len(references), 3)
        reached = _reached(np.ascontiguousarray(overlaps.transpose(2, 4, 0, 1, 3)))  # [p, m, r]
        pick = reached.argmax(axis=1)
        value = np.take_along_axis(reached, pick[:, None], axis=1)[:, 0]
        chosen = np.where(value > best, pick + start, chosen)
        best = np.maximum(best, value)
    return best, chosen


def _reached(overlap: Array) -> Array:
    """The trace of each overlap [3, 3, ...] after the best rotation.

    That is the largest root of a quartic, reached from above by Newton's steps (Theobald 2005); by singular values
    where the root is double, or nearly so.
    """
    squares = np.einsum("ij...,ij...->...", overlap, overlap)  # [...]
    gram = np.einsum("ki...,kj...->ij...", overlap, overlap)  # [3, 3, ...]
    determinant = (np.cross(overlap[0], overlap[1], axis=0) * overlap[2]).sum(axis=0)
    quadratic, linear = -2 * squares, -8 * determinant
    constant = 2 * np.einsum("ij...,ij...->...", gram, gram) - squares**2
    root: Array = np.sqrt(3 * squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_MOST_STEPS):
            cubic = (root**2 + quadratic) * root
            slope = 2 * root**3 + 2 * cubic + linear
            step = (cubic * root + linear * root + constant) / slope
            root = root - step
            if np.abs(step).max() <= _SMALL_STEP * root.max():
                break
        is_simple = (np.abs(step) <= _SMALL_STEP * root) & (slope > _LEAST_SLOPE * root**3)
    unsure = np.nonzero(~is_simple)
    if len(unsure[0]):
        matrices = np.moveaxis(overlap, (0, 1), (-2, -1))[unsure]
        singular = np.linalg.svd(matrices, compute_uv=False)
        singular[:, 2] *= np.where(np.linalg.det(matrices) < 0, -1.0, 1.0)
        root[unsure] = singular.sum(axis=-1)
    return root
