"""The baseline's conformers: medoids against a search of all choices, and never a conformer of the references'."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.chem.clustering import clustered_conformers, medoids
from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import rmsd_matrix
from engine.chem.smiles import parse_smiles

FLEXIBLE = parse_smiles("CCCCCO")


def distances_of(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(points[:, None] - points[None], axis=-1))


@pytest.mark.parametrize("seed", range(5))
def test_points_in_heaps_have_one_medoid_per_heap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heaps = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    points = np.concatenate([heap + rng.normal(0, 0.5, (5, 2)) for heap in heaps])
    distances = distances_of(points)
    chosen = medoids(distances, 4)
    assert [number // 5 for number in chosen] == [0, 1, 2, 3]
    best = min(combinations(range(20), 4), key=lambda some: distances[:, list(some)].min(axis=1).sum())
    assert chosen == list(best)


def test_points_in_one_place_are_chosen_once_each() -> None:
    assert medoids(np.zeros((4, 4)), 3) == sorted(set(medoids(np.zeros((4, 4)), 3)))
    assert len(medoids(np.zeros((4, 4)), 4)) == 4


def test_as_many_as_were_asked_for_and_always_the_same() -> None:
    one, other = clustered_conformers(FLEXIBLE, 3), clustered_conformers(FLEXIBLE, 3)
    assert one.GetNumConformers() == 3
    assert rmsd_matrix(one, other)[0].min(axis=0).max() == pytest.approx(0, abs=1e-9)
    of_seed = reference_conformers(FLEXIBLE, 15)
    assert rmsd_matrix(one, of_seed)[0].min() > 0.001
