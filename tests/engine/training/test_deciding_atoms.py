"""Which atom's place decides a stereocentre or a double bond: the fourth that is written of it."""

from __future__ import annotations

import numpy as np
import pytest

from engine.training.packing import deciding_atoms


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
    assert np.flatnonzero(deciding_atoms(smiles)).tolist() == deciding
