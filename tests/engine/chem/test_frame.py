"""The principal-axis frame does not depend on how a molecule was turned or moved, and never mirrors it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.chem.conformers import reference_conformers
from engine.chem.frame import place_in_frame, principal_axis_frame
from engine.chem.smiles import parse_smiles
from engine.errors import ConformerError

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)

LINE = np.outer([0.0, 1.1, 2.5, 4.0], [1.0, 2.0, -2.0]) / 3
PLANE = np.array([[0, 0, 0], [3, 0, 0], [0, 2, 0], [5, 1, 0], [1, 1, 0]], dtype=float)
FLAT = {"line": LINE, "plane": PLANE}


def rotation(seed: int) -> Array:
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return np.asarray(turn * [np.sign(np.linalg.det(turn)), 1, 1])  # proper


def asymmetric(seed: int, count: int) -> Array:
    """Points whose spreads and third moments are far from equal and from zero."""
    points = np.random.default_rng(seed).gamma(1.5, size=(count, 3)) * [4.0, 2.0, 1.0]
    centred = points - points.mean(axis=0)
    spread, axes = np.linalg.eigh(centred.T @ centred)
    assume(np.diff(spread).min() > 0.01 * spread.max())
    along = centred @ axes
    assume((np.abs((along**3).sum(axis=0)) > 0.01 * (np.abs(along) ** 3).sum(axis=0))[1:].all())
    return points


def distances(points: Array) -> Array:
    return np.asarray(np.linalg.norm(points[:, None] - points[None], axis=-1))


@given(seed=SEEDS, count=st.integers(5, 30), turn=SEEDS, shift=st.floats(-50, 50))
def test_turning_moving_and_reordering_the_input_changes_nothing(
    seed: int, count: int, turn: int, shift: float
) -> None:
    points, order = asymmetric(seed, count), np.random.default_rng(turn).permutation(count)
    moved = points @ rotation(turn).T + shift
    np.testing.assert_allclose(principal_axis_frame(moved)[order], principal_axis_frame(points[order]), atol=1e-9)


@given(seed=SEEDS, count=st.integers(5, 30))
def test_frame_follows_its_stated_rules_and_mirrors_nothing(seed: int, count: int) -> None:
    points = asymmetric(seed, count)
    framed = principal_axis_frame(points)
    np.testing.assert_allclose(distances(framed), distances(points), atol=1e-9)
    volumes = [np.linalg.det(some[1:4] - some[0]) for some in (framed, points)]  # a mirror image has the other sign
    assert volumes[0] == pytest.approx(volumes[1], abs=1e-7)
    np.testing.assert_allclose(framed.mean(axis=0), 0, atol=1e-9)
    scatter = framed.T @ framed
    np.testing.assert_allclose(scatter - np.diag(np.diag(scatter)), 0, atol=1e-8 * scatter.max())
    assert np.diag(scatter)[0] >= np.diag(scatter)[1] >= np.diag(scatter)[2]
    assert (framed[:, 0] ** 3).sum() > 0
    assert (framed[:, 1] ** 3).sum() > 0


@pytest.mark.parametrize("name", FLAT)
@given(turn=SEEDS)
@settings(max_examples=20)
def test_flat_points_have_one_frame_too(name: str, turn: int) -> None:
    points = FLAT[name]
    framed = principal_axis_frame(points)
    np.testing.assert_allclose(principal_axis_frame(points @ rotation(turn).T + 3), framed, atol=1e-7)
    np.testing.assert_allclose(framed[:, 1 if name == "line" else 2 :], 0, atol=1e-12)
    np.testing.assert_allclose(distances(framed), distances(points), atol=1e-9)


def test_tie_break_puts_the_first_point_on_the_positive_side() -> None:
    two = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(principal_axis_frame(two), [[1, 0, 0], [-1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(principal_axis_frame(two[::-1]), [[1, 0, 0], [-1, 0, 0]], atol=1e-12)
    rectangle = np.array([[2, 1, 0], [2, -1, 0], [-2, -1, 0], [-2, 1, 0]], dtype=float)
    np.testing.assert_allclose(principal_axis_frame(-rectangle), rectangle, atol=1e-12)
    np.testing.assert_allclose(principal_axis_frame(np.full((5, 3), -123.456)), 0, atol=1e-12)


@pytest.mark.parametrize("points", [[[np.nan, 0, 0]], [[0, 0, 0], [0, np.inf, 0]]])
def test_unusable_coordinates_are_named(points: list[list[float]]) -> None:
    with pytest.raises(ConformerError, match="not finite"):
        principal_axis_frame(points)


def test_every_conformer_of_a_copy_is_placed() -> None:
    mol = reference_conformers(parse_smiles("C[C@H](N)C(=O)O"), 3)
    before = [conformer.GetPositions() for conformer in mol.GetConformers()]
    placed = place_in_frame(mol)
    assert placed.GetNumConformers() == 3
    for conformer, original, untouched in zip(placed.GetConformers(), before, mol.GetConformers(), strict=True):
        np.testing.assert_allclose(conformer.GetPositions(), principal_axis_frame(original), atol=1e-12)
        np.testing.assert_array_equal(untouched.GetPositions(), original)
