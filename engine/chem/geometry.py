"""The geometry of a conformer, by the checks of PoseBusters: bonds, angles, clashes, what is flat and what is not.

A faster path to what `posebusters.PoseBusters(config="mol_fast").bust` answers: what depends on the graph alone is made
once per molecule, the rest is arithmetic: RDKit's distance-geometry bounds of pairs of heavy atoms, with the tolerances
of PoseBusters, and planes. docs/benchmarks.md compares the two, check by check.
A check that PoseBusters answers with NaN is *not judged* here. Its energy ratio comes from the library, on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase
from rdkit.Chem.inchi import MolFromInchi, MolToInchi
from rdkit.Chem.rdDistGeom import GetMoleculeBoundsMatrix

from engine.chem.frame import Array, add_conformer
from engine.chem.rdkit_log import captured_log, matching
from engine.figures.words import decimals_apart, fixed
from engine.records import FailedCheck

Apart = Literal["bond", "angle", "other"]
APART: tuple[Apart, ...] = get_args(Apart)
LEAST_OFF, MOST_OFF = np.array([-0.25, -0.25, -0.3]), np.array([0.25, 0.25, np.inf])
"""Relative to the lower and the upper bound, by index in ``APART``: nearer or farther than this is wrong."""

CONJUGATED_ENDS = Chem.MolFromSmarts("[O,N;D1;$([O,N;D1]-[*]=[O,N;D1]),$([O,N;D1]=[*]-[O,N;D1])]~[*]")
Indices = NDArray[np.int64]

POSEBUSTERS = "0.6.5"
"""The version that this agrees with."""
MOST_FAILURES = 12
"""Of one check; the rest are counted. A molecule with all atoms in one place fails hundreds of times."""

BOND_LENGTHS, BOND_ANGLES, CLASH = "bond_lengths", "bond_angles", "internal_steric_clash"
AROMATIC, RINGS, DOUBLE_BONDS = "aromatic_ring_flatness", "non-aromatic_ring_non-flatness", "double_bond_flatness"
INCHI, ENERGY = "inchi_convertible", "internal_energy"
OF_PAIRS = dict(zip(APART, (BOND_LENGTHS, BOND_ANGLES, CLASH), strict=True))

SettingsName = Literal["mol_fast", "mol", "group"]
LEFT_OUT: dict[SettingsName, tuple[str, ...]] = {"mol_fast": (), "mol": (), "group": ("no_radicals", RINGS)}
"""Of PoseBusters' checks, which have its own names: two of its settings, and those that the group evaluates with."""

MOST_OFF_PLANE_ANG, LEAST_OFF_PLANE_ANG, MOST_ENERGY_RATIO = 0.25, 0.05, 100.0
_RING_ATOM = "[C,O,S,N;R1]"
_SMARTS = {
    AROMATIC: ("[ar5^2]1[ar5^2][ar5^2][ar5^2][ar5^2]1", "[ar6^2]1[ar6^2][ar6^2][ar6^2][ar6^2][ar6^2]1"),
    RINGS: (
        f"{_RING_ATOM}~1{_RING_ATOM}{_RING_ATOM}{_RING_ATOM}{_RING_ATOM}{_RING_ATOM}1",
        f"[C;R1]~1[C;R1]{_RING_ATOM}~{_RING_ATOM}[C;R1][C;R1]1",
        f"[C;R1]~1[C;R1][C;R1]~[C;R1]{_RING_ATOM}[C;R1]1",
        f"[C;R1]~1[C;R1][C;R1]{_RING_ATOM}~{_RING_ATOM}[C;R1]1",
        f"[C;R1]~1[C;R1]{_RING_ATOM}[C;R1]~[C;R1][C;R1]1",
    ),
    DOUBLE_BONDS: ("[C;X3;^2](*)(*)=[C;X3;^2](*)(*)",),
}
_PATTERNS = {check: [Chem.MolFromSmarts(smarts) for smarts in all_smarts] for check, all_smarts in _SMARTS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class PairBounds:
    """Pairs of heavy atoms, first < second, with what distance geometry allows them in angstrom; arrays of [pairs]."""

    first: Indices
    second: Indices
    apart: Indices  # index in ``APART``
    centre: Indices  # of an angle the atom in its middle, else -1
    lower: Array
    upper: Array

    def wrong(self, positions: Array) -> tuple[Indices, Array, Array]:
        """Of positions [atoms, 3] the pairs beyond their bounds and tolerance; then, of all pairs, the distances and
        how far they are beyond, relative to the bound: negative for too near, 0 within, positive for too far."""
        distances = np.linalg.norm(positions[self.first] - positions[self.second], axis=-1)  # [pairs]
        below, above = distances < self.lower, distances > self.upper
        bound = np.where(below, self.lower, self.upper)  # the one that it may be beyond
        errors = np.where(below | above, (distances - bound) / bound, 0.0)
        is_wrong = (errors < LEAST_OFF[self.apart]) | (errors > MOST_OFF[self.apart])
        return np.flatnonzero(is_wrong), distances, errors

    def only(self, kept: NDArray[np.bool_]) -> PairBounds:
        return PairBounds(*(getattr(self, name)[kept] for name in self.__slots__))


def pair_bounds(mol: Chem.Mol) -> PairBounds | None:
    """Bounds of a sanitised molecule; None where distance geometry has none for it."""
    atoms = mol.GetNumAtoms()
    matrix = np.zeros((atoms, atoms))
    if atoms > 1:
        try:
            with captured_log():
                matrix = GetMoleculeBoundsMatrix(mol, set15bounds=True, scaleVDW=True, doTriangleSmoothing=True)
        except RuntimeError:
            return None
    apart, centre = np.full((atoms, atoms), APART.index("other")), np.full((atoms, atoms), -1)
    for atom in mol.GetAtoms():
        for ends in combinations(sorted(neighbour.GetIdx() for neighbour in atom.GetNeighbors()), 2):
            apart[ends], centre[ends] = APART.index("angle"), atom.GetIdx()
    for bond in mol.GetBonds():
        ends = min(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()), max(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        apart[ends], centre[ends] = APART.index("bond"), -1
    second, first = np.tril_indices(atoms, k=-1)  # [pairs] each
    lower, upper = matrix[second, first], matrix[first, second]
    # Of conjugated ends, all bonds between the same two elements get the widest bounds of any of them.
    pair_index = {pair: index for index, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True))}
    same_kind: dict[tuple[str, ...], list[int]] = {}
    with matching():
        matches = mol.GetSubstructMatches(CONJUGATED_ENDS)
    for match in matches:
        elements = tuple(sorted(mol.GetAtomWithIdx(atom).GetSymbol() for atom in match))
        same_kind.setdefault(elements, []).append(pair_index[min(match), max(match)])
    for indices in same_kind.values():
        lower[indices], upper[indices] = lower[indices].min(), upper[indices].max()
    heavy = np.array([atom.GetAtomicNum() != 1 for atom in mol.GetAtoms()], dtype=bool)
    pairs = PairBounds(first, second, apart[first, second], centre[first, second], lower, upper)
    return pairs.only(heavy[first] & heavy[second])


@dataclass(frozen=True, slots=True)
class GeometryVerdict:
    """What failed, and which checks could not be made."""

    failed: tuple[FailedCheck, ...]
    not_judged: frozenset[str]

    @property
    def right(self) -> bool | None:
        """None where nothing failed, but not every check could be made."""
        if self.failed:
            return False
        return None if self.not_judged else True


def failures_of_graph(mol: Chem.Mol) -> list[FailedCheck]:
    """What fails in every conformer of a molecule."""
    failed = []
    if (parts := len(Chem.GetMolFrags(mol))) > 1:
        failed.append(FailedCheck("all_atoms_connected", (), f"{parts} parts without a bond between them"))
    if radicals := tuple(atom.GetIdx() for atom in mol.GetAtoms() if atom.GetNumRadicalElectrons()):
        failed.append(FailedCheck("no_radicals", radicals, "unpaired electrons"))
    return failed


class GeometryChecks:
    """What must hold of any conformer of one sanitised, hydrogen-suppressed molecule.

    ``energy`` adds the energy ratio, a second each.
    """

    def __init__(self, mol: Chem.Mol, settings: SettingsName = "mol_fast", *, energy: bool = False) -> None:
        self.left_out = LEFT_OUT[settings]
        self.energy = energy
        self.mol = Chem.Mol(mol)
        self.mol.RemoveAllConformers()
        self.of_graph = failures_of_graph(self.mol)
        self.bounds = pair_bounds(self.mol)
        with matching():
            self.planes = [
                (check, match)
                for check, patterns in _PATTERNS.items()
                for pattern in patterns
                for match in self.mol.GetSubstructMatches(pattern)
            ]

    def judge(self, positions: Array) -> GeometryVerdict:
        """Positions [atoms, 3] in angstrom."""
        placed = Chem.Mol(self.mol)
        add_conformer(placed, positions)
        failed, not_judged = list(self.of_graph), set[str]()
        with captured_log():  # InChI's stereo layer is read from the conformer, so this is asked of each
            if MolFromInchi(MolToInchi(placed)) is None:
                failed.append(FailedCheck(INCHI, (), "no InChI can be written that reads back"))
        if self.bounds is None:
            not_judged |= set(OF_PAIRS.values())
        else:
            failed += _wrong_pairs(self.bounds, positions)
        failed += wrong_planes(self.planes, positions)
        if self.energy:
            ratio = _energy_ratio(placed)
            not_judged |= {ENERGY} if np.isnan(ratio) else set()
            if ratio > MOST_ENERGY_RATIO:
                detail = f"{fixed(ratio, 0)} times the mean of 50 conformers, at most {fixed(MOST_ENERGY_RATIO, 0)}"
                failed.append(FailedCheck(ENERGY, (), detail))
        return GeometryVerdict(tuple(fail for fail in failed if fail.check not in self.left_out), frozenset(not_judged))


def judged_with(settings: SettingsName) -> str:
    """What a stored verdict says of its geometry."""
    return f"posebusters {POSEBUSTERS}, {settings}, rdkit {rdBase.rdkitVersion}"


def _wrong_pairs(bounds: PairBounds, positions: Array) -> Iterator[FailedCheck]:
    wrong, distances, errors = bounds.wrong(positions)
    wrong = wrong[np.argsort(-np.abs(errors[wrong]), kind="stable")]  # worst first
    for index, apart in enumerate(APART):
        of_kind = wrong[bounds.apart[wrong] == index].tolist()
        for pair in of_kind[:MOST_FAILURES]:
            atoms = (bounds.first[pair], bounds.centre[pair], bounds.second[pair])
            least, most = bounds.lower[pair] * (1 + LEAST_OFF[index]), bounds.upper[pair] * (1 + MOST_OFF[index])
            side, limit = ("least", least) if errors[pair] < 0 else ("most", most)
            words = {"bond": "long", "angle": "between the ends of the angle", "other": "apart"}[apart]
            digits = decimals_apart(distances[pair], limit)
            detail = f"{fixed(distances[pair], digits)} Å {words}, at {side} {fixed(limit, digits)} is allowed"
            yield FailedCheck(OF_PAIRS[apart], tuple(int(atom) for atom in atoms if atom >= 0), detail)
        if len(of_kind) > MOST_FAILURES:
            yield FailedCheck(OF_PAIRS[apart], (), f"and {len(of_kind) - MOST_FAILURES} more")


def wrong_planes(planes: Iterable[tuple[str, tuple[int, ...]]], positions: Array) -> Iterator[FailedCheck]:
    for check, atoms in planes:
        # As PoseBusters measures it: the largest distance on the side that the normal points to.
        centred = positions[list(atoms)] - positions[list(atoms)].mean(axis=0)
        off = float(np.dot(centred, np.linalg.svd(centred)[2][-1]).max())
        if check == RINGS and not off >= LEAST_OFF_PLANE_ANG:
            digits = decimals_apart(off, LEAST_OFF_PLANE_ANG)
            detail = f"flat within {fixed(off, digits)} Å, at least {LEAST_OFF_PLANE_ANG} is expected"
            yield FailedCheck(check, atoms, detail)
        if check != RINGS and not off <= MOST_OFF_PLANE_ANG:
            digits = decimals_apart(off, MOST_OFF_PLANE_ANG)
            detail = f"{fixed(off, digits)} Å off its plane, at most {MOST_OFF_PLANE_ANG} is allowed"
            yield FailedCheck(check, atoms, detail)


def _energy_ratio(mol: Chem.Mol) -> float:
    """The library's: UFF energy with hydrogens, over the mean of 50 relaxed conformers; NaN where it has none."""
    from posebusters.modules.energy_ratio import check_energy_ratio

    with captured_log():
        results = check_energy_ratio(
            mol, threshold_energy_ratio=MOST_ENERGY_RATIO, ensemble_number_conformations=50, num_threads=1
        )["results"]
    return float("nan") if np.isnan(results["energy_ratio_passes"]) else float(results["energy_ratio"])
