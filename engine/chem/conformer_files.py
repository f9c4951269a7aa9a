"""Conformers of heavy atoms out of files (SDF and MOL, Parquet, pickles), and ETKDG's made here.

SDF: each record is a conformer, its molecule the record's own graph. Parquet: a row is a conformer, with the columns
``smiles`` (any SMILES), ``xyz`` (x, y, z of each of its atoms in the order of the text, flat or in threes) and, where
there is one, ``weight``. Pickles have one of ``SHAPES``; a closed child reads them, by ``molecule_unpickler``.

What cannot be read ends the reading with an error that names the place; a single conformer that cannot be used is
named and left out. Hydrogens are removed as the group does: ``Chem.RemoveHs``, then ``MolToSmiles``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from rdkit import Chem

from engine.chem import structure_files as forms
from engine.chem.conformers import reference_conformers
from engine.chem.frame import Array, add_conformer, check_finite
from engine.chem.molecule_unpickler import PickledMol, load
from engine.chem.rdkit_log import captured_log, matching
from engine.chem.smiles import (
    MOST_CHARACTERS,
    MOST_HEAVY_ATOMS,
    canonical_order,
    flat_smiles,
    graph_key,
    read_text_order,
    same_graph,
)
from engine.errors import ConformerError, DriftscopeError, FileError, GraphMismatchError, MoleculeSizeError, shown
from engine.file_forms import Becomes, FileForm, file_form, form_by_name, what_is_taken
from engine.records import Molecule
from engine.sandbox import MB, Answer, Limits, Sandbox, SandboxError
from engine.user_files import open_file

Shape = Literal["references", "molecules", "geom"]
SHAPES: dict[Shape, str] = {
    "references": "references ({smiles: {'confs': [Mol, ...]}})",
    "molecules": "generations ({smiles: [Mol, ...]}, or a shard of them with its stats)",
    "geom": "a file of GEOM ({'conformers': [{'rd_mol': Mol}]})",
}
UNREADABLE = "RDKit cannot read it"
"""Begins what is said of a molecule with damaged bytes; one that is missing is a generation that failed."""
_STATS = -1
"""In place of a conformer's number: a shard's stats."""
MOST_BYTES = 8 * 2**30  # of a pickle, which is held in memory
_FIX = f"Known are {', '.join(SHAPES.values())}"


@dataclass(frozen=True, slots=True)
class HeavyConformer:
    """One conformer as a file has it."""

    smiles: str  # canonical, hydrogens suppressed
    xyz: Array = field(compare=False, repr=False)  # [atoms of the SMILES, 3]
    source: str = ""  # the file, and where in it
    key: str = ""  # the SMILES that the file names for it; empty: its own
    weight: float | None = None
    problem: str = ""  # why it cannot be used


Conformers: TypeAlias = Iterator[HeavyConformer]


def omitted(source: str, key: str, problem: str) -> HeavyConformer:
    return HeavyConformer("", np.empty((0, 3)), source, key, problem=problem)


def of_mol(mol: Chem.Mol, source: str, key: str = "", weight: float | None = None) -> Conformers:
    """Each conformer with the canonical SMILES of the molecule without hydrogens, in the order of that text."""
    with captured_log():
        try:
            heavy = Chem.RemoveHs(mol)
            smiles, order = canonical_order(heavy)
        except (RuntimeError, ValueError, KeyError) as error:
            reason = str(error).strip().partition("\n")[0]
            yield omitted(source, key, f"its hydrogens cannot be removed: {reason}"[:300])
            return
    conformers = list(heavy.GetConformers())
    if not order or not conformers or (len(order) > 1 and not conformers[0].Is3D()):
        yield omitted(source, key, "it has no coordinates in 3D")
        return
    for conformer in conformers:
        yield HeavyConformer(smiles, conformer.GetPositions()[order], source, key, weight)


@lru_cache(4_096)
def settled_smiles(text: str) -> str:
    """Canonical SMILES that stays as it is when it is read and written again, which RDKit's first one may not."""
    mol = read_text_order(text.strip())
    if mol.GetNumHeavyAtoms() > MOST_HEAVY_ATOMS:
        raise MoleculeSizeError(f"it has {mol.GetNumHeavyAtoms()} heavy atoms, the limit is {MOST_HEAVY_ATOMS}")
    before, smiles = "", graph_key(mol)
    for _ in range(4):
        if smiles != before:
            before, smiles = smiles, graph_key(read_text_order(smiles))
    return smiles


@lru_cache(4_096)
def _order_in(smiles: str, other: str, stereo: bool) -> list[int]:
    """For each atom of ``smiles``, a settled one, its index in ``other``, another SMILES of the same molecule."""
    wanted, given = read_text_order(smiles), read_text_order(other)
    if smiles == other:
        return list(range(wanted.GetNumAtoms()))
    is_same = same_graph(wanted, given) if stereo else flat_smiles(wanted) == flat_smiles(given)
    if not is_same:
        raise GraphMismatchError(f"its graph is {shown(other, 200)}, which is not its key's {shown(smiles, 200)}")
    with matching():
        match = given.GetSubstructMatch(wanted, useChirality=True) or given.GetSubstructMatch(wanted)
    if len(match) != given.GetNumAtoms():
        raise GraphMismatchError(f"its atoms cannot be matched with those of {shown(smiles, 200)}")
    return list(match)


def under_its_key(conformer: HeavyConformer, *, stereo: bool = True) -> HeavyConformer:
    """Of the molecule that it is filed under, its coordinates in the order of that SMILES. Without ``stereo`` a
    mirrored centre is no other molecule."""
    if conformer.problem:
        return conformer
    try:
        smiles = settled_smiles(conformer.key or conformer.smiles)
        order, xyz = _order_in(smiles, conformer.smiles, stereo), np.asarray(conformer.xyz, dtype=np.float64)
        if xyz.shape != (len(order), 3):
            raise ConformerError(f"coordinates have shape {xyz.shape}, its SMILES has {len(order)} atoms")
        check_finite(xyz)
        if len(xyz) > 1 and not np.ptp(xyz, axis=0).any():
            raise ConformerError("it has no coordinates: all atoms lie in one place")
    except DriftscopeError as error:
        return omitted(conformer.source, conformer.key or conformer.smiles, error.what)
    return replace(conformer, smiles=smiles, xyz=np.ascontiguousarray(xyz[order]))


def as_asked(conformer: HeavyConformer) -> tuple[HeavyConformer, bool | None]:
    """In the order of the SMILES that its file names for it, and whether it is that molecule, which a centre of the
    other hand is too: as in a text that copies the SMILES, what is wrong in space is the verdict's matter. None where
    the file names none. Another molecule is in the order of its own SMILES."""
    placed = under_its_key(conformer, stereo=False)
    if not conformer.key or not placed.problem:
        return placed, True if conformer.key else None
    return under_its_key(replace(conformer, key="")), False


def molecule_with(smiles: str, conformers: Sequence[Array]) -> Chem.Mol:
    """The molecule of a SMILES, atoms in text order, with these conformers."""
    mol = read_text_order(smiles)
    for xyz in conformers:
        add_conformer(mol, xyz)
    return mol


# --- files ------------------------------------------------------------------------------------------------------------


def files_of(path: Path, becomes: Becomes = "pool") -> tuple[FileForm, list[Path]]:
    """A file, or all files in a folder, by name, and the one form that they have."""
    paths = [path]
    if path.is_dir():
        paths = sorted(Path(folder, name) for folder, _, names in os.walk(path) for name in names)  # follows no link
        paths = [file for file in paths if form_by_name(file, becomes) and not file.name.startswith(".")]
    by_form = {file_form(file, becomes): file for file in paths}
    if not by_form:
        raise FileError(f"{shown(path, 200)} has no file of conformers", what_is_taken(becomes))
    if len(by_form) > 1:
        several = " and ".join(f"{shown(file.name)} ({form.name})" for form, file in by_form.items())
        raise FileError(f"{shown(path, 200)} has files of several forms: {several}", "Give them one by one")
    return next(iter(by_form)), paths


def read_conformers(
    form: FileForm,
    paths: Sequence[Path],
    shapes: Sequence[Shape] = tuple(SHAPES),
    tell: Callable[[str], object] = lambda stats: None,
) -> Conformers:
    """Of all files, as they are needed. ``tell`` gets a shard's stats, in words."""
    conformers: Conformers = form.load()(paths, shapes, tell)
    return conformers


def sdf_conformers(paths: Sequence[Path], *_: object) -> Conformers:
    for path in paths:
        for number, record in enumerate(forms.sdf_records(path), start=1):
            yield from of_mol(forms.read_record(path.name, number, record)[1], f"record {number} of {path.name}")


def parquet_conformers(paths: Sequence[Path], *_: object) -> Conformers:
    for path in paths:
        for row, (smiles, numbers, *more) in enumerate(forms.parquet_rows(path, _columns), start=1):
            yield _of_row(f"row {row} of {path.name}", smiles, numbers, more)


def _columns(schema: Any) -> list[str]:
    names = [name for name in ("smiles", "xyz", "weight") if name in schema.names]
    if names[:2] != ["smiles", "xyz"]:
        columns = ", ".join(f"{column.name} ({column.type})" for column in schema)[:200]
        raise FileError(f"its columns are {columns}", "Give smiles, and xyz with x, y, z of each of its atoms")
    return names


def _of_row(source: str, smiles: Any, numbers: object, more: Sequence[object]) -> HeavyConformer:
    key = smiles[:MOST_CHARACTERS] if isinstance(smiles, str) else ""
    if not smiles or key != smiles:
        return omitted(source, key, f"its SMILES is no text of 1 to {MOST_CHARACTERS:,} characters")
    try:
        xyz = np.array(numbers, dtype=np.float64).reshape(-1, 3)
        mol = molecule_with(smiles, [xyz])
    except DriftscopeError as error:
        return omitted(source, key, error.what)
    except (TypeError, ValueError):
        return omitted(source, key, "its xyz are no x, y, z of each atom of its SMILES")
    weight = next((float(value) for value in more if isinstance(value, int | float)), None)
    (conformer,) = of_mol(mol, source, weight=weight)
    return replace(conformer, xyz=xyz) if conformer.smiles == smiles else conformer  # symmetry may allow several orders


def made_conformers(molecules: Sequence[Molecule], count: int, *, seed: int = 0, mmff: bool = False) -> Conformers:
    """ETKDGv3's, ``count`` for each molecule or as many as are found; relaxed with MMFF94 where ``mmff`` is set."""
    for molecule in molecules:
        try:
            embedded = reference_conformers(molecule, count, seed=seed, mmff=mmff)
        except DriftscopeError as error:
            yield omitted("ETKDG", molecule.smiles, error.what)
            continue
        for number, conformer in enumerate(of_mol(embedded, "ETKDG", molecule.smiles), start=1):
            yield replace(conformer, source=f"ETKDG {number}")


def limits_of(size: int) -> Limits:
    """Of computing and memory, for a file of so many bytes."""
    return Limits(30 + 2 * size / MB, is_cpu=True, memory_mb=1024 + 4 * size / MB, is_closed=True)


def pickled_conformers(
    paths: Sequence[Path], shapes: Sequence[Shape] = tuple(SHAPES), tell: Callable[[str], object] = lambda stats: None
) -> Conformers:
    """The conformers of each file, in its order; FileError, with the file's name, where one cannot be read or has
    none of these shapes. All files go to one process. ``tell`` gets a shard's stats, in words."""
    reader = Sandbox(_reader, limits=limits_of(max(path.stat().st_size for path in paths)))
    try:
        for path in paths:
            if path.stat().st_size > MOST_BYTES:
                raise FileError(f"it has over {MOST_BYTES / MB:,.0f} MB", "Split it")
            with open_file(path) as file:
                content = file.read()
            for (key, number, weight, smiles, problem), body in reader.each(content, tuple(shapes)):
                if number == _STATS:
                    tell(problem)
                    continue
                source = f"conformer {number + 1}{f' of {shown(key, 120)} in' if key else ' of'} {path.name}"
                yield HeavyConformer(smiles, np.frombuffer(body).reshape(-1, 3), source, key, weight, problem)
    except SandboxError as error:
        fix = "Split it" if error.why != "end" else "The file may be damaged, or hostile"
        raise FileError(f"{shown(path.name)}: {error.what} to read", fix) from error
    except FileError as error:
        raise FileError(f"{shown(path.name)}: {error.what}", error.fix) from error
    finally:
        reader.end()


# --- in the child ----------------------------------------------------------------------------------------------------


def _reader() -> Callable[[bytes, Sequence[Shape]], Iterator[Answer]]:
    _read(PickledMol(Chem.MolFromMolBlock(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O"))).ToBinary()))
    return _answers  # nothing can be imported later


def _answers(content: bytes, shapes: Sequence[Shape]) -> Iterator[Answer]:
    """Key, number, weight, SMILES and what is wrong of each conformer, with its coordinates; a shard's stats first."""
    document = load(content)
    if isinstance(document, dict) and set(document) == {"generations", "stats"}:  # a shard of one process of several
        counts = document["stats"] if isinstance(document["stats"], dict) else {}
        told = [f"{shown(key, 40)} {count}" for key, count in counts.items() if type(count) is int]
        yield ("", _STATS, None, "", ", ".join(told[:20])), b""
        document = document["generations"]
    for key, listed, weights in molecules_of(document, shapes):
        for number, (pickled, weight) in enumerate(zip(listed, weights, strict=True)):
            weight = weight if type(weight) is float else None
            for heavy in _read(pickled):
                yield (key, number, weight, heavy.smiles, heavy.problem), heavy.xyz.astype(np.float64).tobytes()


def molecules_of(document: Any, shapes: Sequence[Shape]) -> Iterator[tuple[str, Sequence[Any], Sequence[Any]]]:
    """Each molecule's key, conformers (None is a generation that failed) and their weights, all of one known shape."""
    if not isinstance(document, dict) or not document:
        raise FileError(f"it is the pickle of a {type(document).__name__} that is no mapping, or empty", _FIX)
    shape, entries, weights = _entries_of(document)
    if shape not in shapes:
        wanted = " or ".join(SHAPES[shape] for shape in shapes)
        raise FileError(f"it has {SHAPES[shape]} in place of {wanted}", "`references add` takes it")
    for key, listed in entries:
        listed = [listed] if isinstance(listed, PickledMol) else listed
        if not isinstance(key, str) or len(key) > MOST_CHARACTERS:
            raise FileError(f"its keys are not SMILES: one is {shown(key)}", _FIX)
        if not isinstance(listed, list | tuple) or not all(isinstance(mol, PickledMol | None) for mol in listed):
            raise FileError(f"at {shown(key)} it has something else in place of molecules", _FIX)
        # half a character is none
        yield key.encode("utf-8", "replace").decode("utf-8"), listed, weights or [None] * len(listed)


def _entries_of(document: dict[Any, Any]) -> tuple[Shape, list[tuple[Any, Any]], list[Any] | None]:
    """The shape of a pickle, what it lists under each key, and the weights of GEOM's only molecule."""
    if isinstance(records := document.get("conformers"), list):
        records = [record if isinstance(record, dict) else {} for record in records]
        mols = [record.get("rd_mol") for record in records]
        return "geom", [(document.get("smiles", ""), mols)], [record.get("boltzmannweight") for record in records]
    if any(isinstance(value, dict) for value in document.values()):
        listed = (value.get("confs") if isinstance(value, dict) else "" for value in document.values())
        return "references", list(zip(document, listed, strict=True)), None
    return "molecules", list(document.items()), None


def _read(pickled: PickledMol | None) -> list[HeavyConformer]:
    if pickled is None or not pickled.content:
        return [omitted("", "", "there is no molecule")]
    try:
        return list(of_mol(Chem.Mol(pickled.content), ""))
    except (RuntimeError, ValueError) as error:
        return [omitted("", "", f"{UNREADABLE}: {error}"[:300])]
