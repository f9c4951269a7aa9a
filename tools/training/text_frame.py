"""The frame in which texts are trained: three atoms of the text span it, so that hands are a sign.

They are the first three written of the stereocentre (or double bond) that is complete first, the centre itself and its
neighbours counted: the first is the origin, the second one lies along x, the third on the side of positive y. The
fourth is then above or below their plane: the sign of its z is the centre's hand, and mirror images differ in the sign
of z alone. Where no stereo is stated, the text's first two atoms and the first one off their axis do the same.
In the principal-axis frame every place follows from the whole molecule, which a model that writes atom by atom does not
know yet. Only numpy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OFF_AXIS = 0.3
"""Sine of the least angle to x at which an atom, seen from the first, fixes y: 17 degrees."""


def text_frame(
    xyz: NDArray[np.integer], atoms: NDArray[np.integer], anchors: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """Coordinates [atoms of all texts, 3] in any length unit; ``atoms`` counts those of each text.

    ``anchors`` [texts, 3] are the three atoms of each text; three times 0 where no stereo is stated.
    """
    starts = np.cumsum(atoms) - atoms
    text = np.repeat(np.arange(len(atoms)), atoms)
    chosen = np.zeros((len(atoms), 3), dtype=np.int64) if anchors is None else anchors.astype(np.int64)
    states = chosen.any(axis=1)
    places = xyz - xyz[starts + chosen[:, 0]][text].astype(np.float64)
    along = _unit(places[starts + np.where(states, chosen[:, 1], np.minimum(1, atoms - 1))])  # [texts, 3]
    off = places - (places * along[text]).sum(axis=1, keepdims=True) * along[text]
    stands_off = np.linalg.norm(off, axis=1) > OFF_AXIS * np.linalg.norm(places, axis=1)
    fixes = np.flatnonzero(stands_off & (places != 0).any(axis=1))
    third = starts.copy()  # a straight molecule has none: y stays 0 with any axis
    third[text[fixes[::-1]]] = fixes[::-1]
    across = _unit(off[np.where(states, starts + chosen[:, 2], third)])
    axes = np.stack((along, across, np.cross(along, across)), axis=1)[text]  # [atoms, axis, 3]
    return np.asarray(np.rint(np.einsum("nij,nj->ni", axes, places)), dtype=np.int32)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))
