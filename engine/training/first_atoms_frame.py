"""The frame in which texts are trained: their own first atoms span it, so a text tells its frame as it goes.

The first atom is the origin, the second one lies along x, and the first atom off that axis lies on the side of positive
y. So mirror images differ in the sign of z alone, bonds point in few directions, and an atom's place follows from those
before it. In the principal-axis frame it follows from the whole molecule, which a model that writes atom by atom
does not know yet. Only numpy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OFF_AXIS = 0.3
"""Sine of the least angle to x at which an atom, seen from the first, fixes y: 17 degrees."""


def first_atoms_frame(xyz: NDArray[np.integer], atoms: NDArray[np.integer]) -> NDArray[np.int32]:
    """Coordinates [atoms of all texts, 3] in any length unit; ``atoms`` counts those of each text."""
    starts = np.cumsum(atoms) - atoms
    text = np.repeat(np.arange(len(atoms)), atoms)
    places = xyz - xyz[starts][text].astype(np.float64)
    along = _unit(places[np.minimum(starts + 1, starts + atoms - 1)])  # [texts, 3]
    off = places - (places * along[text]).sum(axis=1, keepdims=True) * along[text]
    stands_off = np.linalg.norm(off, axis=1) > OFF_AXIS * np.linalg.norm(places, axis=1)
    fixes = np.flatnonzero(stands_off & (places != 0).any(axis=1))
    first = starts.copy()  # a straight molecule has none: y stays 0 with any axis
    first[text[fixes[::-1]]] = fixes[::-1]
    across = _unit(off[first])
    axes = np.stack((along, across, np.cross(along, across)), axis=1)[text]  # [atoms, axis, 3]
    return np.asarray(np.rint(np.einsum("nij,nj->ni", axes, places)), dtype=np.int32)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))
