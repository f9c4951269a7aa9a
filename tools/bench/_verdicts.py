"""A conformer judged by RDKit and PoseBusters, by no check that an LP makes itself; and what repairs one.

Stereo: RDKit's tags and sides of the coordinates against the SMILES, over its symmetries. Geometry: PoseBusters'
settings ``mol``, of which ``mol_fast`` lacks the energy ratio; NaN is not passed. How many *sites* (centres, double
bonds) are right RDKit does not say: that is by ``engine.chem.stereo``. Energies are MMFF94s, where it has parameters.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers
from rdkit.Chem.rdMolAlign import AlignMol
from rdkit.DistanceGeometry import DoTriangleSmoothing

from engine.chem.frame import Array, add_conformer
from engine.chem.geometry import ENERGY
from engine.chem.rdkit_log import captured_log
from engine.chem.stereo import judge_stereo, stereo_goals
from engine.figures.coverage_metrics import DRUG_LIKE_ANG, figures_of

NO_CONFORMER, STEREO = "no conformer", "stereo"
"""What fails besides PoseBusters' own checks: a damaged text or another molecule; a wrong hand or side."""
MINIMISING_STEPS = 10_000
WIDTHS_ANG = (0.25, 0.5, 1.0, 2.0)
"""How far distance geometry may leave the distances that were written: the narrowest that embeds."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one answer. ``sites`` are those that the SMILES states."""

    failed: tuple[str, ...]
    sites: int
    sites_right: int = 0
    strain_per_atom: float | None = None  # kcal/mol per heavy atom
    moved_ang: float | None = None  # heavy atoms, to their next minimum
    coverage: tuple[float, ...] | None = None  # COV-R, COV-P, MAT-R, MAT-P

    def passes(self, *but: str) -> bool:
        """Whether nothing failed but these."""
        return set(self.failed) <= set(but)

    @property
    def usable(self) -> bool:
        return self.passes(ENERGY)

    @property
    def stereo_right(self) -> bool:
        return not {STEREO, NO_CONFORMER} & set(self.failed)


def judge(conformer: Chem.Mol | None, expected: Chem.Mol, rmsd_ang: Any = None, settings: str = "mol") -> Verdict:
    """Of the same molecule without hydrogens. ``rmsd_ang`` [1, references] is to the reference conformers."""
    sites = len(stereo_goals(expected))
    if conformer is None:
        return Verdict((NO_CONFORMER,), sites)
    with captured_log():
        failed = [] if has_stereo(conformer, expected) else [STEREO]
        checks = _posebusters(settings).bust([conformer]).iloc[0].to_dict()
        sites_right = sites - len(judge_stereo(expected, conformer).wrong)
    failed += [str(name) for name, is_passed in checks.items() if is_passed is not True and is_passed is not np.True_]
    strain, moved, _ = relaxed(conformer) or (None, None, None)
    figures = None if rmsd_ang is None else figures_of(rmsd_ang.T, DRUG_LIKE_ANG)
    coverage = None if figures is None else tuple(figures.figures.tolist())
    return Verdict(tuple(failed), sites, sites_right, strain, moved, coverage)


def has_stereo(conformer: Chem.Mol, expected: Chem.Mol) -> bool:
    """Whether the coordinates have every hand and side that ``expected`` states."""
    mol = Chem.Mol(conformer)
    Chem.RemoveStereochemistry(mol)
    Chem.AssignAtomChiralTagsFromStructure(mol)
    Chem.DetectBondStereochemistry(mol)
    Chem.AssignStereochemistry(mol, cleanIt=False, force=True)
    return bool(mol.HasSubstructMatch(expected, useChirality=True))


@cache
def _posebusters(settings: str) -> Any:
    from posebusters import PoseBusters

    logging.getLogger("posebusters").setLevel(logging.ERROR)
    return PoseBusters(config=settings, max_workers=0, chunk_size=None)


# --- strain and repairs -----------------------------------------------------------------------------------------------


def relaxed(conformer: Chem.Mol) -> tuple[float, float, Array] | None:
    """Strain in kcal/mol per heavy atom, RMSD of heavy atoms to the next minimum, and where they are there. Hydrogens
    are added, and relaxed alone first."""
    count = conformer.GetNumAtoms()
    with captured_log():
        try:
            after = Chem.AddHs(conformer, addCoords=True)
            high = _minimise(after, fixed=count)
            before = Chem.Mol(after)
            strain = high - _minimise(after, fixed=0)
        except (RuntimeError, ValueError):  # atoms in one place
            return None
    if not np.isfinite(strain):
        return None
    moved = AlignMol(after, before, atomMap=[(atom, atom) for atom in range(count)]) if count > 1 else 0.0
    return strain / count, float(moved), after.GetConformer().GetPositions()[:count]


def _minimise(full: Chem.Mol, fixed: int) -> float:
    """In place, without the first atoms; the energy, NaN where there are no parameters."""
    parameters = rdForceFieldHelpers.MMFFGetMoleculeProperties(full, mmffVariant="MMFF94s")
    if parameters is None:
        return np.nan
    force_field = rdForceFieldHelpers.MMFFGetMoleculeForceField(full, parameters)
    force_field.Initialize()
    for atom in range(fixed):
        force_field.AddFixedPoint(atom)
    force_field.Minimize(maxIts=MINIMISING_STEPS)
    return float(force_field.CalcEnergy())


def minimised(conformer: Chem.Mol, expected: Chem.Mol) -> Chem.Mol | None:
    """At its next minimum."""
    minimum = relaxed(conformer)
    return None if minimum is None else _placed(expected, minimum[2])


def embedded_near(conformer: Chem.Mol, expected: Chem.Mol) -> Chem.Mol | None:
    """By ETKDGv3 within narrower bounds: heavy atoms three bonds apart or more keep the distance that was written, or
    the allowed one next to it, by a width. Hands and sides are those of ``expected``."""
    full = Chem.AddHs(expected)
    try:
        free = rdDistGeom.GetMoleculeBoundsMatrix(full)
    except RuntimeError:
        return None
    first, second = np.nonzero(np.triu(Chem.GetDistanceMatrix(expected) >= 3))
    lower, upper = free[second, first], free[first, second]
    positions = conformer.GetConformer().GetPositions()
    written = np.linalg.norm(positions[first] - positions[second], axis=-1).clip(lower, upper)
    for width in WIDTHS_ANG:
        bounds = free.copy()
        bounds[second, first] = np.maximum(lower, written - width)
        bounds[first, second] = np.minimum(upper, written + width)
        embedded, parameters = Chem.Mol(full), rdDistGeom.ETKDGv3()
        parameters.randomSeed, parameters.maxIterations = 1, 20
        with captured_log():
            if DoTriangleSmoothing(bounds):
                parameters.SetBoundsMat(bounds)
                if rdDistGeom.EmbedMolecule(embedded, parameters) == 0:
                    return _placed(expected, embedded.GetConformer().GetPositions()[: expected.GetNumAtoms()])
    return None


def _placed(mol: Chem.Mol, positions: Array) -> Chem.Mol:
    placed = Chem.Mol(mol)
    placed.RemoveAllConformers()
    add_conformer(placed, positions)
    return placed
