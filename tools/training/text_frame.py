"""The frame in which the demo models' texts are trained: three atoms of a text span it, so that hands are a sign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rdkit import Chem

UNITS_PER_ANG = 10_000
OFF_AXIS = 0.3
"""Sine of the least angle to x at which an atom, seen from the first, fixes y: 17 degrees."""


def anchors_of(mol: Chem.Mol) -> tuple[int, int, int]:
    """The atoms that span the frame of a text, of a molecule in its order: of the stereocentre or double bond that is
    complete first, the first three that are written. Three times 0 where no stereo is stated."""
    from engine.chem.stereo import stereo_goals  # here: the frame is asked for where no RDKit is

    written = sorted((sorted(goal.spanned_by) for goal in stereo_goals(mol)), key=lambda order: order[3])
    first, second, third = written[0][:3] if written else (0, 0, 0)
    return first, second, third


def text_frame(
    xyz: NDArray[np.integer], atoms: NDArray[np.integer], anchors: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """Coordinates [atoms of all texts, 3] in the frame in which texts are trained; ``atoms`` counts those of each.

    Three atoms of the text, its ``anchors`` [texts, 3], span it, so that hands are a sign: the first three written of
    the stereocentre (or double bond) that is complete first, itself and its neighbours counted. The first is the
    origin, the second is along x, the third on the side of positive y: the sign of the fourth's z is the centre's
    hand, and mirror images differ in the sign of z alone. Where no stereo is stated (three times 0), the text's first
    two atoms and the first one off their axis do the same. In the principal-axis frame every place follows from the
    whole molecule, which a model that writes atom by atom does not know yet.
    """
    starts = np.cumsum(atoms) - atoms
    text = np.repeat(np.arange(len(atoms)), atoms)
    chosen = np.zeros((len(atoms), 3), dtype=np.int64) if anchors is None else anchors.astype(np.int64)
    states = chosen.any(axis=1)
    positions = xyz - xyz[starts + chosen[:, 0]][text].astype(np.float64)
    along = _unit(positions[starts + np.where(states, chosen[:, 1], np.minimum(1, atoms - 1))])  # [texts, 3]
    off = positions - (positions * along[text]).sum(axis=1, keepdims=True) * along[text]
    is_off = np.linalg.norm(off, axis=1) > OFF_AXIS * np.linalg.norm(positions, axis=1)
    fixes = np.flatnonzero(is_off & (positions != 0).any(axis=1))
    third = starts.copy()  # a straight molecule has none: y stays 0 with any axis
    third[text[fixes[::-1]]] = fixes[::-1]
    across = _unit(off[np.where(states, starts + chosen[:, 2], third)])
    axes = np.stack((along, across, np.cross(along, across)), axis=1)[text]  # [atoms, axis, 3]
    return np.asarray(np.rint(np.einsum("nij,nj->ni", axes, positions)), dtype=np.int32)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))
