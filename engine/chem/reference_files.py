"""Reference conformers out of files: SDF and MOL, Parquet, pickles (``engine.chem.pickled_conformers`` reads those),
and ETKDG made here. A folder is read file by file; all are of one form.

SDF: each record is a conformer, its molecule the record's own graph. Parquet: a row is a conformer, with the columns
``smiles`` (any SMILES), ``xyz`` (x, y, z of each of its atoms in the order of the text, flat or in threes) and, where
there is one, ``weight``. What cannot be read ends the reading with an error that names the place, so that nothing is
half read in; a single conformer of a pickle or a Parquet file that cannot be used is named and left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.frame import add_conformer
from engine.chem.heavy_conformers import HeavyConformer, OmittedConformer, heavy_conformers
from engine.chem.parquet_files import is_number, is_numbers, is_text, parquet_columns, schema_of
from engine.chem.pickled_conformers import ENDINGS as PICKLE_ENDINGS
from engine.chem.pickled_conformers import pickled_conformers
from engine.chem.smiles import MOST_CHARACTERS, read_text_order
from engine.chem.structure_files import mol_of, sdf_records
from engine.errors import ConformerError, DriftscopeError, FileFormatError, one_line, shown
from engine.records import Molecule
from engine.user_files import open_file

SDF_ENDINGS = (".sdf", ".sdf.gz", ".sd", ".mol", ".mol.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
ENDINGS = (*SDF_ENDINGS, *PARQUET_ENDINGS, *PICKLE_ENDINGS)
_KNOWN = f"Known are {', '.join(ENDINGS)}"
PARQUET_ROWS = 512
_COLUMNS = "Give smiles, and xyz with x, y, z of each atom of the SMILES, in its order"

Conformers: TypeAlias = Iterator[HeavyConformer | OmittedConformer]


@dataclass(frozen=True, slots=True)
class ReferenceSource:
    """Files of one form, not read yet."""

    form: str  # sdf, parquet, pickle
    name: str
    paths: tuple[Path, ...]

    def conformers(self) -> Conformers:
        if self.form == "pickle":
            yield from pickled_conformers(self.paths)
            return
        read = {"sdf": _of_sdf, "parquet": _of_parquet}[self.form]
        for path in self.paths:
            yield from read(path)


def reference_source(path: Path) -> ReferenceSource:
    """A file, or a folder with all that lies in it."""
    if not path.is_dir():
        return ReferenceSource(_form(path), path.name, (path,))
    found = sorted(
        Path(folder, name)
        for folder, _, names in os.walk(path)  # which follows no link to a folder
        for name in names
        if name.lower().endswith(ENDINGS) and not name.startswith(".")
    )
    if not found:
        raise FileFormatError(f"{shown(path, 200)} has no file of references in it", _KNOWN)
    forms = {_form(file): file for file in found}
    if len(forms) > 1:
        files = " and ".join(f"{shown(file.name)} ({form})" for form, file in forms.items())
        raise FileFormatError(f"{shown(path, 200)} has files of several forms: {files}", "Give them one by one")
    return ReferenceSource(next(iter(forms)), path.resolve().name, tuple(found))


def _form(path: Path) -> str:
    with open_file(path) as file:
        head = file.read(4)
    name = path.name.lower()
    if head.startswith(b"\x80") or name.endswith(PICKLE_ENDINGS):
        return "pickle"
    if head == b"PAR1" or name.endswith(PARQUET_ENDINGS):
        return "parquet"
    if not name.endswith(SDF_ENDINGS):
        raise FileFormatError(f"{shown(path.name)} is of no known form", _KNOWN)
    return "sdf"


def _of_sdf(path: Path) -> Conformers:
    number = 0
    for number, record in enumerate(sdf_records(path), start=1):
        place = f"record {number} of {path.name}"
        mol = mol_of(path, number, record)
        try:
            _check_3d(mol)
            smiles, (xyz,) = heavy_conformers(mol)
        except ConformerError as error:
            raise FileFormatError(f"{shown(place, 200)}: {error.what}", "Give records with 3D coordinates") from error
        yield HeavyConformer(smiles, xyz, place)
    if not number:
        raise FileFormatError(f"{shown(path.name)} has no record in it", "Give a file with at least one")


def _check_3d(mol: Chem.Mol) -> None:
    """A benzene lies in a plane and is 3D where its record says so."""
    xyz = mol.GetConformer().GetPositions() if mol.GetNumConformers() else np.zeros((mol.GetNumAtoms(), 3))
    if len(xyz) > 1 and not np.ptp(xyz, axis=0).any():
        raise ConformerError("it has no coordinates")
    if mol.GetNumConformers() and not mol.GetConformer().Is3D() and len(xyz) > 1:
        raise ConformerError("it is a drawing: its coordinates are 2D")


def _of_parquet(path: Path) -> Conformers:
    schema, row = schema_of(path), 0
    missing = [name for name in ("smiles", "xyz") if name not in schema.names]
    if missing:
        some = ", ".join(map(shown, schema.names[:20]))
        raise FileFormatError(f"{shown(path.name)} has no column {' and no '.join(missing)}; it has {some}", _COLUMNS)
    for name, fits in (("smiles", is_text), ("xyz", is_numbers)):
        kind = schema.field(schema.names.index(name)).type
        if not fits(kind):
            raise FileFormatError(f"column {name} of {shown(path.name)} is {one_line(str(kind))[:60]}", _COLUMNS)
    has_weight = "weight" in schema.names and is_number(schema.field(schema.names.index("weight")).type)
    names = ["smiles", "xyz", *(["weight"] if has_weight else [])]
    for columns in parquet_columns(path, names, PARQUET_ROWS):
        for cells in zip(*columns.values(), strict=True):
            row += 1
            yield _of_row(dict(zip(names, cells, strict=True)), f"row {row} of {path.name}")
    if not row:
        raise FileFormatError(f"{shown(path.name)} has no row in it", "Give a file with at least one")


def _of_row(cells: dict[str, Any], place: str) -> HeavyConformer | OmittedConformer:
    smiles = cells["smiles"] if isinstance(cells["smiles"], str) else ""
    try:
        if not smiles or len(smiles) > MOST_CHARACTERS:
            raise ConformerError(f"its SMILES has {len(smiles):,} characters")
        try:
            xyz = np.array(cells["xyz"], dtype=np.float64).reshape(-1, 3)
        except (TypeError, ValueError) as error:
            raise ConformerError("its xyz are no x, y, z of each atom") from error
        mol = read_text_order(smiles)
        if len(xyz) != mol.GetNumAtoms():
            raise ConformerError(f"its SMILES has {mol.GetNumAtoms()} atoms, its xyz {len(xyz)}")
        add_conformer(mol, xyz)
        own, (positions,) = heavy_conformers(mol)
    except DriftscopeError as error:
        return OmittedConformer(place, smiles[:MOST_CHARACTERS], error.what)
    weight = cells.get("weight")
    if own == smiles:  # its order is kept, where symmetry allows several
        positions = xyz
    return HeavyConformer(own, positions, place, weight=float(weight) if isinstance(weight, int | float) else None)


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
