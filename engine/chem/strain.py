"""The strain of a conformer: how far its energy lies above the relaxed conformer, and how far its atoms move to it.

Hydrogens are added and relaxed alone first, since a text has none. MMFF94, or UFF where that lacks parameters; GFN2-xTB
by tblite on request, where it is installed. Relaxing goes downhill to the nearest minimum, which is not the molecule's
lowest. Parts without a bond between them do not see each other in a force field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem.rdMolAlign import AlignMol

from engine.chem.conformers import force_field
from engine.chem.frame import Array, conformer_of
from engine.chem.rdkit_log import captured_log
from engine.errors import AssetError

StrainMethod = Literal["force-field", "gfn2-xtb"]
XTB = "GFN2-xTB"
MOST_STEPS, STEPS_AT_A_TIME = 10_000, 500
MOST_XTB_STEPS, XTB_GRADIENT, XTB_REACH = 500, 1e-3, 0.3  # hartree/bohr, and bohr that an atom moves per step
KCAL_PER_HARTREE, BOHR_PER_ANG = 627.5094740631, 1.8897261246


@dataclass(frozen=True, slots=True)
class Strain:
    """Energy above the relaxed conformer, by which field, and the RMSD of heavy atoms between the two."""

    kcal: float
    moved_ang: float
    field: str
    converged: bool

    @property
    def field_words(self) -> str:
        return self.field if self.converged else f"{self.field}, stopped before a minimum"


def strain_of(mol: Chem.Mol, method: StrainMethod = "force-field") -> Strain | None:
    """Of the first conformer of a sanitised molecule; None where no field has parameters or a finite energy for it."""
    conformer_of(mol)
    relax = _by_xtb if method == "gfn2-xtb" else _by_force_field
    with captured_log():
        try:
            full = Chem.AddHs(mol, addCoords=True)
            heavy = [atom.GetIdx() for atom in full.GetAtoms() if atom.GetAtomicNum() > 1]
            start = relax(full, heavy)
            before = Chem.Mol(full)
            end = relax(full, [])
        except (RuntimeError, ValueError):  # atoms in one place, or a row of them with no direction left for a hydrogen
            return None
    if start is None or end is None or not np.isfinite(start[0] - end[0]):
        return None
    moved = AlignMol(full, before, atomMap=[(atom, atom) for atom in heavy]) if len(heavy) > 1 else 0.0
    return Strain(float(start[0] - end[0]), float(moved), start[1], start[2] and end[2])


def _by_force_field(full: Chem.Mol, fixed: list[int]) -> tuple[float, str, bool] | None:
    """Relaxes the conformer; its energy in kcal/mol, the field, and whether that is a minimum."""
    name, field = force_field(full)
    if field is None:
        return None
    field.Initialize()
    for atom in fixed:
        field.AddFixedPoint(atom)
    steps = range(0, MOST_STEPS, STEPS_AT_A_TIME)
    is_settled = any(field.Minimize(maxIts=STEPS_AT_A_TIME) == 0 for _ in steps)
    return field.CalcEnergy(), name, is_settled


def _by_xtb(full: Chem.Mol, fixed: list[int]) -> tuple[float, str, bool]:
    numbers = np.array([atom.GetAtomicNum() for atom in full.GetAtoms()])
    unpaired = sum(atom.GetNumRadicalElectrons() for atom in full.GetAtoms())
    positions = full.GetConformer().GetPositions() * BOHR_PER_ANG
    calculator = xtb_calculator()(XTB, numbers, positions, float(Chem.GetFormalCharge(full)), unpaired)
    calculator.set("verbosity", 0)

    def energy(positions: Array) -> tuple[float, Array]:
        """Positions in bohr to hartree and hartree/bohr."""
        calculator.update(positions)
        result = calculator.singlepoint()
        return float(result.get("energy")), np.asarray(result.get("gradient"))

    free = np.ones(len(positions), dtype=bool)
    free[fixed] = False
    value, placed, is_settled = _downhill(energy, positions, free)
    full.GetConformer().SetPositions(placed / BOHR_PER_ANG)
    return value * KCAL_PER_HARTREE, XTB, is_settled


def xtb_calculator() -> Any:
    """tblite's class, where it is installed."""
    try:
        from tblite.interface import Calculator
    except ImportError as error:
        what = "tblite is not installed, which computes GFN2-xTB"
        raise AssetError(what, "pip install -r requirements-xtb.txt") from error
    return Calculator


def _downhill(
    energy: Callable[[Array], tuple[float, Array]], positions: Array, free: NDArray[np.bool_]
) -> tuple[float, Array, bool]:
    """BFGS over the free atoms: energy, positions, and whether the gradient vanished."""
    here = positions.copy()
    size = 3 * int(free.sum())
    value, gradient = energy(here)
    slope, inverse = gradient[free].ravel(), np.eye(size)
    for _ in range(MOST_XTB_STEPS):
        if not size or np.abs(slope).max() < XTB_GRADIENT:
            return value, here, True
        step = -inverse @ slope
        step *= min(1.0, XTB_REACH / np.abs(step).max())
        for _ in range(10):
            there = here.copy()
            there[free] += step.reshape(-1, 3)
            new_value, gradient = energy(there)
            if new_value <= value + 1e-4 * (step @ slope):
                break
            step *= 0.5
        else:
            inverse = np.eye(size)
            if new_value >= value:
                return value, here, False
        change = gradient[free].ravel() - slope
        if (curve := step @ change) > 1e-10:
            left = np.eye(size) - np.outer(step, change) / curve
            inverse = left @ inverse @ left.T + np.outer(step, step) / curve
        here, value, slope = there, new_value, slope + change
    return value, here, False
