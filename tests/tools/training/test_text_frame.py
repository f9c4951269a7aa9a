"""The frame of a text: a proper one, the same for any turn of the molecule, and mirrored in z alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.training.packed import text_frame

ATOMS = np.array([1, 2, 5, 9, 3])
RANDOM = np.random.Generator(np.random.PCG64(3))


def points() -> NDArray[np.int64]:
    xyz = RANDOM.integers(-60_000, 60_000, (ATOMS.sum(), 3))
    xyz[-3:] = [[0, 0, 0], [10_000, 0, 0], [-20_000, 0, 0]]  # a straight molecule
    return xyz


def distances(xyz: NDArray[np.integer]) -> NDArray[np.float64]:
    places = xyz.astype(float)
    return np.asarray(np.linalg.norm(places[:, None] - places[None], axis=-1))


def test_the_first_atoms_span_it_and_distances_stay() -> None:
    xyz = points()
    placed = text_frame(xyz, ATOMS)
    for start, count in zip(np.cumsum(ATOMS) - ATOMS, ATOMS, strict=True):
        part = placed[start : start + count]
        assert not part[0].any()
        assert not part[1:2, 1:].any() and (part[1:2, 0] > 0).all()
        if count > 3:
            assert part[2, 1] > 0 and part[2, 2] == 0
        np.testing.assert_allclose(distances(part), distances(xyz[start : start + count]), atol=2)


def test_a_turned_molecule_has_the_same_numbers_and_a_mirrored_one_other_z() -> None:
    xyz = points()
    placed = text_frame(xyz, ATOMS)
    axes, _ = np.linalg.qr(RANDOM.standard_normal((3, 3)))
    turned = np.rint(xyz @ (axes * np.linalg.det(axes))).astype(np.int64) + 777
    np.testing.assert_allclose(text_frame(turned, ATOMS), placed, atol=20)  # of 1e-4 angstrom
    np.testing.assert_array_equal(text_frame(xyz * np.array([1, -1, 1]), ATOMS), placed * [1, 1, -1])


def test_an_atom_in_line_with_the_first_two_fixes_no_plane() -> None:
    nitrile = np.array([[0, 0, 0], [11_600, 0, 0], [26_000, 10, 5], [31_000, -9_000, 9_000]])  # N#CCC
    placed = text_frame(nitrile, np.array([4]))
    assert placed[3, 1] > 12_000 and placed[3, 2] == 0
    assert abs(placed[2, 1]) <= 15


def test_anchors_span_the_frame_where_a_text_states_stereo() -> None:
    xyz = points()
    anchors = np.zeros((len(ATOMS), 3), dtype=np.uint16)
    anchors[3] = 2, 5, 7  # of nine atoms
    placed = text_frame(xyz, ATOMS, anchors)
    start = int(ATOMS[:3].sum())
    part, others = placed[start : start + 9], np.r_[0:start, start + 9 : ATOMS.sum()]
    assert not part[2].any() and part[5, 0] > 0 and not part[5, 1:].any() and part[7, 1] > 0 and part[7, 2] == 0
    np.testing.assert_allclose(distances(part), distances(xyz[start : start + 9]), atol=2)
    np.testing.assert_array_equal(placed[others], text_frame(xyz, ATOMS)[others])
