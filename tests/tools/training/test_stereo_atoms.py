"""Which atom's place decides a stereocentre or a double bond: the fourth that is written of it."""

from __future__ import annotations

import numpy as np
import pytest

from tools.training.packing import stereo_atoms


@pytest.mark.parametrize(
    ("smiles", "deciding"),
    [
        ("CCO", []),
        ("C[C@H](N)O", [3]),
        ("C[C@](N)(O)F", [3]),  # the fifth atom goes where the four others leave room
        ("N[C@@H]1CCO[C@@H]1F", [5, 6]),  # the first centre's ring is closed by atom 5
        ("F/C=C/Cl", [3]),
        ("[O-][S@@+](C)CC", [3]),
    ],
)
def test_the_fourth_atom_written_of_a_site_decides_it(smiles: str, deciding: list[int]) -> None:
    assert np.flatnonzero(stereo_atoms(smiles).deciding).tolist() == deciding


@pytest.mark.parametrize(
    ("smiles", "anchors"),
    [
        ("CCO", (0, 0, 0)),
        ("C[C@H](N)O", (0, 1, 2)),
        ("CCC[C@H](N)[C@@H](F)Cl", (2, 3, 4)),
        ("N[C@@H]1CCO[C@@H]1F", (0, 1, 2)),
        ("CC/C=C/Cl", (1, 2, 3)),
    ],
)
def test_the_three_before_it_span_the_frame(smiles: str, anchors: tuple[int, int, int]) -> None:
    assert stereo_atoms(smiles).anchors == anchors
