"""What pickles of molecules look like: the group's references and generations, and GEOM's own files.

========== ====================================================================================
references ``{smiles: {"confs": [Mol, ...], ...}}``: the group's
molecules  ``{smiles: [Mol, ...]}``: the group's generations; references of others look like that
geom       ``{"conformers": [{"rd_mol": Mol, "boltzmannweight": ...}, ...], "smiles": ...}``
========== ====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from engine.chem.molecule_unpickler import PickledMol
from engine.chem.smiles import MOST_CHARACTERS
from engine.errors import FileFormatError, shown

Shape = Literal["references", "molecules", "geom"]
WORDS: dict[Shape, str] = {
    "references": "references ({smiles: {'confs': [Mol, ...]}})",
    "molecules": "generations ({smiles: [Mol, ...]})",
    "geom": "a file of GEOM ({'conformers': [{'rd_mol': Mol}]})",
}
UNREADABLE = "RDKit cannot read it"
"""Begins what is said of a molecule whose bytes are damaged; one that is missing is a generation that failed."""
_FIX = f"Known are {', '.join(WORDS.values())}"


@dataclass(frozen=True, slots=True)
class PickledMolecule:
    """A molecule's conformers, not read yet. ``key`` is empty where the file names none."""

    key: str
    mols: tuple[PickledMol, ...]
    weights: tuple[float | None, ...]


def shape_of(document: Any) -> Shape:
    """The one shape of all that is in it; FileFormatError for none, or for several."""
    if not isinstance(document, dict):
        raise FileFormatError(f"it is the pickle of a {type(document).__name__}", _FIX)
    if not document:
        raise FileFormatError("it has no molecule in it", "Give a file with at least one")
    if isinstance(document.get("conformers"), list):
        return "geom"
    shapes: dict[Shape, str] = {}
    for key, value in document.items():
        if not isinstance(key, str):
            raise FileFormatError(f"its keys are not SMILES: one is a {type(key).__name__}", _FIX)
        if len(key) > MOST_CHARACTERS:
            raise FileFormatError(f"its keys are not SMILES: one has {len(key):,} characters", _FIX)
        shapes.setdefault(_shape_of_value(key, value), key)
    if len(shapes) > 1:
        mixed = " and ".join(f"{WORDS[shape]} at {shown(key)}" for shape, key in shapes.items())
        raise FileFormatError(f"it mixes {mixed}", "Write each to a file of its own")
    return next(iter(shapes))


def _shape_of_value(key: str, value: Any) -> Shape:
    if isinstance(value, dict) and isinstance(value.get("confs"), list | tuple):
        return "references"
    if isinstance(value, list | tuple | PickledMol):
        return "molecules"
    kind = "mapping without confs" if isinstance(value, dict) else type(value).__name__
    raise FileFormatError(f"at {shown(key)} it has a {kind} in place of molecules", _FIX)


def molecules_of(document: Any, shape: Shape) -> Iterator[PickledMolecule]:
    if shape == "geom":
        records = [record if isinstance(record, dict) else {} for record in document["conformers"]]
        key = document.get("smiles", "")
        mols = _mols("conformers", [record.get("rd_mol") for record in records])
        weights = tuple(_number(record.get("boltzmannweight")) for record in records)
        yield PickledMolecule(key[:MOST_CHARACTERS] if isinstance(key, str) else "", mols, weights)
        return
    for key, value in document.items():
        listed = value["confs"] if shape == "references" else value
        mols = _mols(key, [listed] if isinstance(listed, PickledMol) else listed)
        yield PickledMolecule(key, mols, (None,) * len(mols))


def _mols(key: str, listed: Any) -> tuple[PickledMol, ...]:
    """None counts as a molecule that is missing: generations that failed may be kept so."""
    wrong = next((mol for mol in listed if mol is not None and not isinstance(mol, PickledMol)), None)
    if wrong is not None:
        raise FileFormatError(f"at {shown(key)} it has a {type(wrong).__name__} in place of a molecule", _FIX)
    return tuple(PickledMol(b"") if mol is None else mol for mol in listed)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, float) or (type(value) is int and abs(value) < 2**53)
    return float(value) if is_number and math.isfinite(value) else None
