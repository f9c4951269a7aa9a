"""Reference conformers out of files (SDF and MOL, Parquet, pickles), and ETKDG's made here.

SDF: each record is a conformer, its molecule the record's own graph. Parquet: a row is a conformer, with the columns
``smiles`` (any SMILES), ``xyz`` (x, y, z of each of its atoms in the order of the text, flat or in threes) and, where
there is one, ``weight``. What cannot be read ends the reading with an error that names the place, so that nothing is
half read in; a single conformer of a pickle or a Parquet file that cannot be used is named and left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from engine.chem import file_forms as forms
from engine.chem.conformers import reference_conformers
from engine.chem.heavy_conformers import (
    HeavyConformer,
    OmittedConformer,
    check_coordinates,
    heavy_conformers,
    molecule_with,
)
from engine.chem.pickled_conformers import pickled_conformers
from engine.chem.smiles import MOST_CHARACTERS
from engine.chem.structure_files import read_record
from engine.errors import ConformerError, DriftscopeError, FileFormatError, shown
from engine.records import Molecule

FORMS: tuple[forms.Form, ...] = ("sdf", "parquet", "pickle")
Conformers: TypeAlias = Iterator[HeavyConformer | OmittedConformer]


def read_references(path: Path) -> tuple[forms.Form, Conformers]:
    """The form of a file, or of all files in a folder, and the conformers, which are not read yet."""
    found = [path]
    if path.is_dir():
        files = sorted(Path(folder, name) for folder, _, names in os.walk(path) for name in names)  # follows no link
        found = [file for file in files if forms.form_by_name(file) in FORMS and not file.name.startswith(".")]
    by_form = {forms.form_of(file): file for file in found}
    if len(by_form) > 1:
        several = " and ".join(f"{shown(file.name)} ({form})" for form, file in by_form.items())
        raise FileFormatError(f"{shown(path, 200)} has files of several forms: {several}", "Give them one by one")
    form = next(iter(by_form), None)
    if form not in FORMS:
        known = ", ".join(ending for ending, form in forms.ENDINGS.items() if form in FORMS)
        raise FileFormatError(f"{shown(path, 200)} is, or has, no file of references", f"Known are {known}")
    one = _of_sdf if form == "sdf" else _of_parquet
    return form, pickled_conformers(found) if form == "pickle" else chain.from_iterable(map(one, found))


def _of_sdf(path: Path) -> Conformers:
    for number, record in enumerate(forms.sdf_records(path), start=1):
        _, mol = read_record(path.name, number, record)
        try:
            if mol.GetNumAtoms() > 1 and not (mol.GetNumConformers() and mol.GetConformer().Is3D()):
                raise ConformerError("it has no coordinates in 3D")
            smiles, (xyz,) = heavy_conformers(mol)
            check_coordinates(xyz)
        except ConformerError as error:
            raise forms.damaged(path.name, number, error.what) from error
        yield HeavyConformer(smiles, xyz, f"record {number} of {path.name}")


def _of_parquet(path: Path) -> Conformers:
    for row, (smiles, numbers, *more) in enumerate(forms.parquet_rows(path, _columns), start=1):
        yield _of_row(f"row {row} of {path.name}", smiles, numbers, more)


def _columns(schema: Any) -> list[str]:
    names = [name for name in ("smiles", "xyz", "weight") if name in schema.names]
    if names[:2] != ["smiles", "xyz"]:
        known = ", ".join(f"{column.name} ({column.type})" for column in schema)[:200]
        raise FileFormatError(f"its columns are {known}", "Give smiles, and xyz with x, y, z of each of its atoms")
    return names


def _of_row(place: str, smiles: Any, numbers: object, more: Sequence[object]) -> HeavyConformer | OmittedConformer:
    key = smiles[:MOST_CHARACTERS] if isinstance(smiles, str) else ""
    try:
        if not smiles or key != smiles:
            raise ConformerError(f"its SMILES is no text of 1 to {MOST_CHARACTERS:,} characters")
        try:
            xyz = np.array(numbers, dtype=np.float64).reshape(-1, 3)
            mol = molecule_with(smiles, [xyz])
        except (TypeError, ValueError) as error:
            raise ConformerError("its xyz are no x, y, z of each atom of its SMILES") from error
        own, (positions,) = heavy_conformers(mol)
    except DriftscopeError as error:
        return OmittedConformer(place, key, error.what)
    positions = xyz if own == smiles else positions  # its order is kept, where symmetry allows several
    weight = next((float(one) for one in more if isinstance(one, int | float)), None)
    return HeavyConformer(own, positions, place, weight=weight)


def made_conformers(molecules: Sequence[Molecule], count: int, *, seed: int = 0, mmff: bool = False) -> Conformers:
    """ETKDGv3's, ``count`` for each molecule or as many as are found; relaxed with MMFF94 where ``mmff`` is set."""
    for molecule in molecules:
        try:
            embedded = reference_conformers(molecule, count, seed=seed, mmff=mmff)
            smiles, positions = heavy_conformers(embedded)
        except DriftscopeError as error:
            yield OmittedConformer("ETKDG", molecule.smiles, error.what)
            continue
        for number, xyz in enumerate(positions, start=1):
            yield HeavyConformer(smiles, xyz, f"ETKDG {number}", key=molecule.smiles)
