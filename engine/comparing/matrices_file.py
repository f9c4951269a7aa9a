"""RMSD matrices as JSON has them: ``{"molecule": [[rmsd, ...] per reference]}`` in ångström, null for a gap.

A molecule without a single sample has empty rows, or none.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from engine.errors import FileFormatError, shown
from engine.figures.coverage_metrics import Array
from engine.user_files import parsed_json, unique_keys

MOST_NAME = 4_000
"""Characters of a molecule's name: what a SMILES may have."""
_FORM = 'Give {"molecule": [[rmsd, ...] per reference, ...], ...}, with null for a gap'


def read_matrices(text: str) -> dict[str, Array]:
    """By molecule [references, samples]; ``FileFormatError`` says what is wrong with which molecule."""
    try:
        document = parsed_json(text, object_pairs_hook=unique_keys)
    except ValueError as error:
        raise FileFormatError(f"the matrices are no JSON ({error})", _FORM) from error
    if not isinstance(document, dict) or not document:
        raise FileFormatError("the matrices are no object with a molecule in it", _FORM)
    if long := [name for name in document if len(name) > MOST_NAME]:
        what = f"{shown(long[0])} is a name of {len(long[0]):,} characters"
        raise FileFormatError(what, f"Give names of at most {MOST_NAME:,}")
    return {name: _matrix(name, rows) for name, rows in document.items()}


def _matrix(name: str, rows: Any) -> Array:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise FileFormatError(f"{shown(name)} is no list of rows", _FORM)
    if (lengths := sorted({len(row) for row in rows}))[1:]:
        raise FileFormatError(f"{shown(name)} has rows of {lengths[0]} and of {lengths[-1]} samples", _FORM)
    for number, value in ((number, value) for number, row in enumerate(rows) for value in row if value is not None):
        if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:  # a whole number may be larger
            raise FileFormatError(f"{shown(name)}, row {number}: {shown(str(value))} is no RMSD", _FORM)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(rows[0]) if rows else 0)  # null becomes NaN
