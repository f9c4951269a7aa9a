"""The stereo of a conformer: is each stereocentre and double bond in space as its SMILES says?

Only what the SMILES specifies is judged. A centre by the sign of the volume that its neighbours span, against its
chiral tag; a double bond by the side on which its stereo atoms lie. Molecules equal their own symmetric images, so the
symmetry of the graph under which most is right counts: meso tartaric acid is its own mirror image. CIP labels and
SMILES that RDKit writes of the coordinates are not asked: both lose centres, and label some that nobody specified.

What this module does not know: allenes, atropisomers, and centres with more than four neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.frame import conformer_of
from engine.chem.rdkit_log import captured_log, matching
from engine.errors import GraphMismatchError

FLAT = 0.1
"""Least volume of a centre that has a hand. 0.77 is ideal: unit vectors to three corners of a tetrahedron."""
NEARLY_PLANAR = 0.3
TWISTED = 0.5
"""Least cosine of a double bond's torsion that has a side: 60 degrees from flat."""
MOST_SYMMETRIES = 10_000
_PLACE = "place"

Word = Literal["right", "nearly planar", "flat", "mirrored", "twisted", "wrong side"]
SOUND: frozenset[Word] = frozenset({"right", "nearly planar"})

_HANDS = {Chem.ChiralType.CHI_TETRAHEDRAL_CCW: 1.0, Chem.ChiralType.CHI_TETRAHEDRAL_CW: -1.0}
_SIDES = {
    Chem.BondStereo.STEREOZ: 1.0,
    Chem.BondStereo.STEREOCIS: 1.0,
    Chem.BondStereo.STEREOE: -1.0,
    Chem.BondStereo.STEREOTRANS: -1.0,
}


@dataclass(frozen=True, slots=True)
class Site:
    """A centre or a double bond that the SMILES specifies, by atoms in its order.

    ``value`` is positive on the side that was asked for: a centre's volume, or the cosine of a bond's torsion.
    ``found`` are the same atoms in the answer, hydrogens that SMILES leaves implicit not counted.
    """

    atoms: tuple[int, ...]
    value: float
    word: Word
    found: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class StereoVerdict:
    """All sites of a molecule, and whether all symmetries of its graph were tried."""

    sites: tuple[Site, ...]
    complete: bool

    @property
    def wrong(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if site.word not in SOUND)

    @property
    def right(self) -> bool | None:
        """None where the SMILES specifies nothing, or where an untried symmetry might have put it right."""
        if not self.sites or (self.wrong and not self.complete):
            return None
        return not self.wrong

    def words(self) -> str:
        """``stereo: 1 of 2 right; atom 3 mirrored``; centres that are right and nearly planar are named too."""
        if not self.sites:
            return "stereo: the SMILES specifies none"
        named = [
            f"; {'atom' if len(site.atoms) == 1 else 'bond'} {'='.join(map(str, site.atoms))} {site.word}"
            for site in self.sites
            if site.word != "right"
        ]
        doubt = "; not every symmetry was tried" if self.right is None else ""
        return f"stereo: {len(self.sites) - len(self.wrong)} of {len(self.sites)} right{''.join(named)}{doubt}"


@dataclass(frozen=True, slots=True)
class StereoGoal:
    """A site before it is measured: the atoms that span it, and the sign that it should have."""

    atoms: tuple[int, ...]
    spanned_by: tuple[int, ...]  # a centre and its neighbours; the four atoms of a torsion
    sign: float

    @property
    def is_bond(self) -> bool:
        return len(self.atoms) == 2

    def is_met(self, positions: NDArray[np.float64]) -> bool:
        """By positions [atoms, 3], whatever the molecule's symmetry would make of them."""
        points = positions[list(self.spanned_by)]
        return _word(self, self.sign * float(_measured(self, points[None])[0])) in SOUND


def judge_stereo(asked: Chem.Mol, answer: Chem.Mol) -> StereoVerdict:
    """The sites of ``asked`` in the conformer of ``answer``, which is the same graph in any order of atoms."""
    goals = stereo_goals(asked)
    if not goals:
        return StereoVerdict((), complete=True)
    with captured_log():
        heavy = answer if answer.GetNumAtoms() == asked.GetNumAtoms() else Chem.RemoveHs(answer)
    positions = np.asarray(conformer_of(heavy, -1).GetPositions(), dtype=np.float64)
    maps, complete = _symmetries(asked, heavy)
    goals = [goal for goal in goals if (maps[:, goal.spanned_by] >= 0).all()]
    values = np.array(
        [goal.sign * _measured(goal, positions[maps[:, goal.spanned_by]]) for goal in goals]
    )  # [sites, maps]
    words = [[_word(goal, value) for value in row] for goal, row in zip(goals, values, strict=True)]
    sound = np.array([[word in SOUND for word in row] for row in words]).reshape(len(goals), len(maps))
    best = int(sound.sum(axis=0).argmax())
    sites = (
        Site(goal.atoms, float(values[k, best]), words[k][best], tuple(maps[best, goal.atoms].tolist()))
        for k, goal in enumerate(goals)
    )
    return StereoVerdict(tuple(sites), complete)


def stereo_goals(mol: Chem.Mol) -> list[StereoGoal]:
    """The sites that a molecule specifies; each is judged by the places of four or five atoms."""
    return [*_centres(mol), *_double_bonds(mol)]


def _centres(mol: Chem.Mol) -> Iterator[StereoGoal]:
    for atom in mol.GetAtoms():
        neighbours = [bond.GetOtherAtomIdx(atom.GetIdx()) for bond in atom.GetBonds()]
        if atom.GetChiralTag() in _HANDS and len(neighbours) in (3, 4):
            here = atom.GetIdx()
            yield StereoGoal((here,), (here, *neighbours), _HANDS[atom.GetChiralTag()])


def _double_bonds(mol: Chem.Mol) -> Iterator[StereoGoal]:
    for bond in mol.GetBonds():
        if bond.GetStereo() in _SIDES:
            begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            one, other = bond.GetStereoAtoms()
            yield StereoGoal((begin, end), (one, begin, end, other), _SIDES[bond.GetStereo()])


def _measured(goal: StereoGoal, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of a double bond the cosine of its torsion, of a centre its volume: [symmetries, atoms, 3] to [symmetries]."""
    if goal.is_bond:
        one, begin, end, other = np.moveaxis(points, 1, 0)
        left, right = _unit(np.cross(one - begin, end - begin)), _unit(np.cross(other - end, end - begin))
        return np.asarray((left * right).sum(axis=-1))
    arms = _unit(points[:, 1:] - points[:, :1])
    if arms.shape[1] == 4:
        return np.asarray(np.linalg.det(arms[:, :3] - arms[:, 3:])) / 4
    return np.asarray(np.linalg.det(arms))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9))


def _word(goal: StereoGoal, value: float) -> Word:
    if goal.is_bond:
        return "right" if value >= TWISTED else "twisted" if value > -TWISTED else "wrong side"
    if value >= FLAT:
        return "right" if value >= NEARLY_PLANAR else "nearly planar"
    return "flat" if value > -FLAT else "mirrored"


def _symmetries(asked: Chem.Mol, answer: Chem.Mol) -> tuple[NDArray[np.int64], bool]:
    """By row, the atom of ``answer`` for each atom of ``asked``, -1 for atoms that no site needs; and whether all."""
    left, right = _skeleton(asked), _skeleton(answer)
    found = _matches(right, left)
    if not found or (left.GetNumAtoms(), left.GetNumBonds()) != (right.GetNumAtoms(), right.GetNumBonds()):
        raise GraphMismatchError("the conformer is of another molecule", "Give one of the same graph")
    if len(found) == MOST_SYMMETRIES:  # rings on a side chain multiply them as well
        needed = _spanning_classes(asked, left)
        left, right = _without_branches(left, needed), _without_branches(right, needed)
        found = _matches(right, left)
    places, goals = ([atom.GetIntProp(_PLACE) for atom in mol.GetAtoms()] for mol in (left, right))
    maps = np.full((len(found), asked.GetNumAtoms()), -1, dtype=np.int64)
    maps[:, places] = np.asarray(goals)[np.asarray(found)]
    return maps, len(found) < MOST_SYMMETRIES


def _matches(right: Chem.Mol, left: Chem.Mol) -> tuple[tuple[int, ...], ...]:
    with matching():
        return tuple(right.GetSubstructMatches(left, uniquify=False, maxMatches=MOST_SYMMETRIES))


def _skeleton(mol: Chem.Mol) -> Chem.Mol:
    """The graph without stereo, its atoms told apart by symmetry class alone, and of equal leaves on an atom the first.

    Fluorines of CF3 and methyls of tert-butyl span no site, but multiply the symmetries by six each time.
    """
    plain = Chem.RWMol(mol)
    Chem.RemoveStereochemistry(plain)
    classes = Chem.CanonicalRankAtoms(plain, breakTies=False)
    seen: set[tuple[int, int]] = set()
    equal = []
    for atom, rank in zip(plain.GetAtoms(), classes, strict=True):
        atom.SetIntProp(_PLACE, atom.GetIdx())
        atom.SetIsotope(rank + 1)
        if atom.GetDegree() == 1:
            leaf = (rank, atom.GetNeighbors()[0].GetIdx())
            equal += [atom.GetIdx()] if leaf in seen else []
            seen.add(leaf)
    for index in reversed(equal):
        plain.RemoveAtom(index)
    return plain


def _spanning_classes(asked: Chem.Mol, skeleton: Chem.Mol) -> set[int]:
    """Of the atoms that span a site, in its own skeleton."""
    spanning = {atom for goal in stereo_goals(asked) for atom in goal.spanned_by}
    return {atom.GetIsotope() for atom in skeleton.GetAtoms() if atom.GetIntProp(_PLACE) in spanning}


def _without_branches(skeleton: Chem.Mol, needed: set[int]) -> Chem.Mol:
    """Without what has no atom of a needed class and hangs on one atom, whose place decides its own, or on none."""
    bonds = {atom.GetIdx(): {other.GetIdx() for other in atom.GetNeighbors()} for atom in skeleton.GetAtoms()}
    kept = {atom.GetIdx() for atom in skeleton.GetAtoms() if atom.GetIsotope() in needed}
    dropped = {atom for part in Chem.GetMolFrags(skeleton) if not kept.intersection(part) for atom in part}
    for joint, others in bonds.items():
        for first in others if joint not in dropped else ():
            branch, edge = {first}, [first]
            while edge:
                new = bonds[edge.pop()] - branch - {joint}
                branch |= new
                edge += new
            if not branch & kept:
                dropped |= branch
    smaller = Chem.RWMol(skeleton)
    for index in sorted(dropped, reverse=True):
        smaller.RemoveAtom(index)
    return smaller
