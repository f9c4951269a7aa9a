"""The principal-axis frame: coordinates that do not depend on how a molecule was turned or moved; and checked ones.

The centre is the plain mean of all points; the axes are the eigenvectors of the covariance, the widest spread first.
Along the first two the sum of cubed coordinates is positive; where it vanishes, the first point off the axis' zero
plane is on its positive side. The third makes the frame right-handed, so chirality is never mirrored. Where two
spreads are equal to the last digit, nothing says which way their axes point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem

from engine.errors import ConformerError

SAME = 1e-6
"""Relative to the farthest point: smaller differences count as none."""
MOST_ANG = 10_000.0
"""From the origin: the columns of SDF end there."""

AS_WRITTEN = "_as_written"
"""Property of a molecule: its coordinates are numbers of a text, and are written back as they stand."""

Array = NDArray[np.float64]


def principal_axis_frame(xyz: ArrayLike) -> Array:
    """The points [n, 3] in their principal-axis frame, in angstrom as given."""
    points = np.asarray(xyz, dtype=np.float64)
    check_finite(points)
    return turned(points, points)


def turned(points: Array, frame: Array) -> Array:
    """``points`` as seen from where those of ``frame`` spread most: the widest axis across, the next one up."""
    return np.ascontiguousarray((points - frame.mean(axis=0)) @ principal_axes(frame).T)


def principal_axes(xyz: ArrayLike) -> Array:
    """The frame's axes as rows [3, 3], a proper rotation; those of space where all points lie in one place."""
    points = np.asarray(xyz, dtype=np.float64)
    centred = points - points.mean(axis=0)
    reach = float(np.abs(centred).max())
    if reach <= 1e-13 * float(np.abs(points).max()):
        return np.eye(3)
    unit = centred / reach
    axes = np.linalg.eigh(unit.T @ unit)[1].T[::-1].copy()  # the widest first
    for index in (0, 1):
        axes[index] = _signed(unit, axes[index])
    axes[2] = np.cross(axes[0], axes[1])
    return axes


def place_in_frame(mol: Chem.Mol) -> Chem.Mol:
    """A copy of the molecule with every conformer in its principal-axis frame (all its atoms count)."""
    placed = Chem.Mol(mol)
    for conformer in placed.GetConformers():
        conformer.SetPositions(principal_axis_frame(conformer.GetPositions()))
    return placed


def _signed(unit: Array, axis: Array) -> Array:
    along = unit @ axis
    cubes = along**3
    skew = float(cubes.sum())
    if abs(skew) > SAME * float(np.abs(cubes).sum()):
        return axis if skew > 0 else -axis
    off = np.flatnonzero(np.abs(along) > SAME)
    return -axis if len(off) and along[off[0]] < 0 else axis


def add_conformer(mol: Chem.Mol, xyz: ArrayLike) -> Any:
    """A conformer with these positions [atoms, 3], added to the molecule under the next free id."""
    conformer: Any = Chem.Conformer(mol.GetNumAtoms())
    conformer.Set3D(True)
    conformer.SetPositions(np.ascontiguousarray(xyz, dtype=np.float64))
    return mol.GetConformer(mol.AddConformer(conformer, assignId=True))


def check_finite(xyz: Array) -> None:
    if not np.isfinite(xyz).all():
        raise ConformerError("a coordinate is not finite")
    if np.abs(xyz).max(initial=0.0) >= MOST_ANG:
        raise ConformerError(f"a coordinate is {MOST_ANG:,.0f} angstrom or more", "Centre the molecule")
