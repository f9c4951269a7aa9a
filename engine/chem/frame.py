"""The principal-axis frame: coordinates that do not depend on how a molecule was turned or moved.

Rules. The centre is the plain mean of all points (no masses). The axes are the eigenvectors of the covariance, the
widest spread first. Signs: along each of the first two axes the third moment, the sum of cubed coordinates, is
positive; where it vanishes (as many points on one side as on the other), the first point off the axis' zero plane
lies on its positive side. The third axis completes a right-handed frame, so chirality is never mirrored.

Where spreads are equal (symmetric tops, collinear points), the covariance fixes no axes: then the first points, in
their order, that stand out of the axes found so far fix them. What this module does not know: which of two nearly equal
spreads is meant. Below ``SAME`` (relative) they count as equal; just above it, noise of that size can swap axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem

from engine.errors import ConformerError

SAME = 1e-6
"""Relative to the widest spread (or the farthest point): smaller differences count as none."""

Array = NDArray[np.float64]


def principal_axis_frame(xyz: ArrayLike) -> Array:
    """The points [n, 3] in their principal-axis frame, in angstrom as given."""
    points = _checked(xyz)
    magnitude = float(np.abs(points).max())
    if magnitude == 0.0:
        return points
    centred = points / magnitude  # no sum or square below can overflow
    centred = centred - centred.mean(axis=0)
    reach = float(np.abs(centred).max())
    if reach < 1e-13:  # all points in one place, but for rounding
        return np.zeros_like(points)
    unit = centred / reach
    return np.asarray(unit @ _axes(unit).T * (reach * magnitude), dtype=np.float64)


def principal_axes(xyz: ArrayLike) -> Array:
    """The frame's axes as rows [3, 3], a proper rotation; those of space where all points lie in one place."""
    points = _checked(xyz)
    unit = points / (np.abs(points).max() or 1.0)
    unit = unit - unit.mean(axis=0)
    reach = float(np.abs(unit).max())
    return np.eye(3) if reach < 1e-13 else _axes(unit / reach)


def place_in_frame(mol: Chem.Mol) -> Chem.Mol:
    """A copy of the molecule with every conformer in its principal-axis frame (all its atoms count)."""
    conformer_ids(mol)
    placed = Chem.Mol(mol)
    conformers: Any = placed.GetConformers()
    for conformer in conformers:
        conformer.SetPositions(np.ascontiguousarray(principal_axis_frame(conformer.GetPositions())))
    return placed


def conformer_ids(mol: Chem.Mol) -> list[int]:
    """The ids of the molecule's conformers; ConformerError where it has none."""
    known = [conformer.GetId() for conformer in mol.GetConformers()]
    if not known:
        raise ConformerError("the molecule has no conformer", "Embed it first, or read it from an SDF file")
    return known


def conformer_of(mol: Chem.Mol, conformer: int = -1) -> Any:
    """The conformer with this id, -1 for the first; ConformerError where there is none."""
    known = conformer_ids(mol)
    if conformer not in (-1, *known):
        raise ConformerError(f"there is no conformer {conformer}", f"The molecule has {known}")
    return mol.GetConformer(conformer)


def add_conformer(mol: Chem.Mol, xyz: ArrayLike) -> Any:
    """A conformer with these positions [atoms, 3], added to the molecule under the next free id."""
    conformer: Any = Chem.Conformer(mol.GetNumAtoms())
    conformer.Set3D(True)
    conformer.SetPositions(np.ascontiguousarray(xyz, dtype=np.float64))
    return mol.GetConformer(mol.AddConformer(conformer, assignId=True))


def _checked(xyz: ArrayLike) -> Array:
    points = np.array(xyz, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or points.shape[0] == 0:
        raise ConformerError(f"coordinates have shape {points.shape}", "Give one row of three numbers per atom")
    if not np.isfinite(points).all():
        row = int(np.argwhere(~np.isfinite(points).all(axis=1))[0, 0])
        raise ConformerError(f"atom {row} has a coordinate that is not finite", "Coordinates must be finite")
    return points


def _axes(unit: Array) -> Array:
    """The frame's axes as rows [3, 3], a proper rotation."""
    spread, vectors = np.linalg.eigh(unit.T @ unit)  # ascending
    spread, candidates = spread[::-1], vectors.T[::-1]
    axes = np.zeros((3, 3))
    for index in (0, 1):
        axes[index] = _signed(unit, _next_axis(unit, spread, candidates, axes[:index]))
    axes[2] = np.cross(axes[0], axes[1])
    return axes


def _next_axis(unit: Array, spread: Array, candidates: Array, axes: Array) -> Array:
    """The axis after those found: an eigenvector where its spread is unique, else chosen by the first point."""
    index = len(axes)
    same = np.abs(spread - spread[index]) <= SAME * spread[0]
    plane = candidates[same]  # [degenerate axes, 3]
    if len(plane) == 1:
        return _perpendicular(plane[0], axes)
    free = unit @ plane.T @ plane  # the points' parts in the degenerate space ...
    free = free - free @ axes.T @ axes  # ... that the axes axes so far do not cover
    off = np.linalg.norm(free, axis=1)
    standing_out = np.flatnonzero(off > SAME)
    if len(standing_out):
        return _perpendicular(free[standing_out[0]] / off[standing_out[0]], axes)
    rest = plane - plane @ axes.T @ axes  # no point extends along the plane: any axis of it
    return _perpendicular(rest[int(np.argmax(np.linalg.norm(rest, axis=1)))], axes)


def _perpendicular(axis: Array, axes: Array) -> Array:
    """The axis without its parts along those axes, of length one."""
    rest = axis - axes.T @ (axes @ axis)
    return np.asarray(rest / np.linalg.norm(rest), dtype=np.float64)


def _signed(unit: Array, axis: Array) -> Array:
    along = unit @ axis
    cubes = along**3
    skew = float(cubes.sum())
    if abs(skew) > SAME * float(np.abs(cubes).sum()):
        return axis if skew > 0 else -axis
    off = np.flatnonzero(np.abs(along) > SAME)
    return -axis if len(off) and along[off[0]] < 0 else axis
