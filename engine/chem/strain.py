"""The strain of a conformer: how far its energy is above the relaxed conformer, and how far its atoms move to it.

Hydrogens are added and relaxed alone first, since a text has none. MMFF94, or UFF where that lacks parameters; GFN2-xTB
by tblite on request, where it is installed. Relaxing goes downhill to the nearest minimum, which is not the molecule's
lowest. Parts without a bond between them do not see each other in a force field.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from rdkit import Chem
from rdkit.Chem.rdMolAlign import AlignMol

from engine.chem.conformers import force_field
from engine.chem.rdkit_log import captured_log
from engine.errors import AssetError

StrainMethod = Literal["force-field", "gfn2-xtb"]
MOST_STEPS, STEPS_AT_A_TIME = 10_000, 500
XTB, XTB_GRADIENT = "GFN2-xTB", 1e-3  # hartree/bohr
KCAL_PER_HARTREE, BOHR_PER_ANG = 627.5094740631, 1.8897261246


class Strain(NamedTuple):
    """Energy above the relaxed conformer, the RMSD of heavy atoms between the two, and by which field."""

    kcal: float
    moved_ang: float
    field: str


def strain_of(mol: Chem.Mol, method: StrainMethod = "force-field") -> Strain | None:
    """Of the first conformer of a sanitised molecule; None where no field has parameters or a finite energy for it."""
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
    field = start[1] if start[2] and end[2] else f"{start[1]}, stopped before a minimum"
    return Strain(float(start[0] - end[0]), float(moved), field)


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
    import torch

    numbers = np.array([atom.GetAtomicNum() for atom in full.GetAtoms()])
    unpaired = sum(atom.GetNumRadicalElectrons() for atom in full.GetAtoms())
    positions = full.GetConformer().GetPositions() * BOHR_PER_ANG
    calculator = xtb_calculator()(XTB, numbers, positions, float(Chem.GetFormalCharge(full)), unpaired)
    calculator.set("verbosity", 0)

    free = np.ones(len(positions), dtype=bool)
    free[fixed] = False
    moving = torch.tensor(positions[free])

    def energy() -> torch.Tensor:
        """In hartree, and the gradient in hartree/bohr."""
        positions[free] = moving.numpy()
        calculator.update(positions)
        result = calculator.singlepoint()
        moving.grad = torch.tensor(np.asarray(result.get("gradient"))[free])
        return torch.tensor(float(result.get("energy")))

    if free.any():
        descent = torch.optim.LBFGS([moving], max_iter=500, tolerance_grad=XTB_GRADIENT, line_search_fn="strong_wolfe")
        descent.step(energy)
    value = float(energy()) * KCAL_PER_HARTREE
    full.GetConformer().SetPositions(positions / BOHR_PER_ANG)
    return value, XTB, moving.grad is None or not free.any() or float(moving.grad.abs().max()) < XTB_GRADIENT


def xtb_calculator() -> Any:
    """tblite's class, where it is installed."""
    try:
        from tblite.interface import Calculator
    except ImportError as error:
        problem = "tblite is not installed, which computes GFN2-xTB"
        raise AssetError(problem, "pip install -r requirements-xtb.txt") from error
    return Calculator
