"""Conformers of stored texts: one sample's, whole or in part, and all of a run's.

A whole text is read strictly. Of any other, the atoms whose three coordinates can be read are put together with the
bonds between them; how many are missing, and why the text was refused, is reported beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdkit import Chem

from engine.chem.enriched import decode
from engine.chem.frame import add_conformer
from engine.chem.group_reader import misread_ang
from engine.chem.rdkit_log import captured_log
from engine.errors import DriftscopeError
from engine.records import Molecule, ReaderName
from engine.store.generations import conformer_texts
from engine.store.store import Store
from engine.text.check import answer_of, decode_with

Row = Mapping[str, Any]
PROPERTIES = (
    "run_id sample_id smiles passed decodes clean usable stereo_right geometry_right strain_kcal bad_blocks cut_blocks "
    "rmsd_ang"
).split()


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """``atoms`` has the molecule's atom for each atom of ``mol``, -1 for one that the molecule does not have."""

    mol: Chem.Mol | None
    atoms: tuple[int, ...]
    why_not: str  # empty where the conformer is whole


def conformer_of(sample: Row, blocks: Sequence[Row], molecule: Molecule) -> Shape:
    """The conformer, whole or in part, or why there is none."""
    if not sample["text"]:
        return Shape(None, (), "There is no text to read a conformer from.")
    try:
        mol = decode(answer_of(sample["text"])).mol  # as it was judged: positions count from there
    except DriftscopeError as error:
        return _partial(error.what, blocks, molecule)
    atoms = [row["atom"] if row["atom"] is not None else -1 for row in blocks]
    if len(atoms) != mol.GetNumAtoms():  # a cleanup removed blocks, or their rows are missing
        atoms = list(range(mol.GetNumAtoms())) if mol.GetNumAtoms() == molecule.atoms else [-1] * mol.GetNumAtoms()
    return Shape(mol, tuple(atoms), "")


@dataclass(frozen=True, slots=True, eq=False)
class GroupShape:
    """A damaged text's conformer by the group's reader, whose atoms stand in the order of the blocks."""

    mol: Chem.Mol | None
    misread: Mapping[int, float]  # by block: how far off, in angstrom; NaN where the text states no position
    farthest: int | None  # the block of the largest displacement
    why_not: str  # the reader's error


def group_conformer_of(sample: Row, blocks: Sequence[Row]) -> GroupShape | None:
    """What the group's reader makes of a text that ours refuses; None where there is nothing to read."""
    if not sample["text"] or not blocks:
        return None
    misread = {
        index: ang
        for index, row in enumerate(blocks)
        if (ang := misread_ang(row["text"] or "", (row["x"], row["y"], row["z"]))) is not None
    }
    known = {index: ang for index, ang in misread.items() if math.isfinite(ang)}
    farthest = max(known, key=known.__getitem__, default=None)
    try:
        return GroupShape(decode_with("group", sample["text"]).mol, misread, farthest, "")
    except DriftscopeError as error:
        return GroupShape(None, misread, farthest, error.what)


def _partial(reason: str, blocks: Sequence[Row], molecule: Molecule) -> Shape:
    positions = {row["atom"]: xyz for row in blocks if None not in (xyz := (row["x"], row["y"], row["z"]))}
    kept = sorted(atom for atom in positions if atom is not None and 0 <= atom < molecule.atoms)
    if not kept:
        return Shape(None, (), f"The strict reader refuses the text: {reason}.")
    mol = _only(molecule, kept)
    add_conformer(mol, [positions[atom] for atom in kept])
    words = f"The strict reader refuses the text: {reason}. Shown are {len(kept)} of {molecule.atoms} atoms, as far as"
    return Shape(mol, tuple(kept), f"{words} their blocks can be read.")


def _only(molecule: Molecule, kept: Sequence[int]) -> Chem.Mol:
    """These atoms with the bonds between them; rings that are no longer whole are no longer aromatic."""
    if len(kept) == molecule.atoms:
        whole = Chem.Mol(molecule.mol)
        whole.RemoveAllConformers()
        return whole
    with captured_log():
        mol = Chem.RWMol(molecule.mol)
        mol.RemoveAllConformers()
        Chem.Kekulize(mol, clearAromaticFlags=True)
        mol.BeginBatchEdit()
        for atom in set(range(molecule.atoms)).difference(kept):
            mol.RemoveAtom(atom)
        mol.CommitBatchEdit()
        for atom in mol.GetAtoms():
            atom.SetNoImplicit(True)  # removed neighbours are not replaced by hydrogens
        mol.UpdatePropertyCache(strict=False)
        return mol.GetMol()


def conformers_of(
    store: Store, run_id: str, sample_ids: Iterable[int] | None = None, reader: ReaderName = "strict"
) -> tuple[list[tuple[str, Chem.Mol]], list[dict[str, Any]]]:
    """A run's named molecules and their properties, by sample; texts that the reader refuses are left out."""
    rows = store.rows(
        f"SELECT text, {', '.join(PROPERTIES)} FROM samples WHERE run_id = $run ORDER BY sample_id", {"run": run_id}
    )
    stated = conformer_texts(store, store.entry(run_id))
    chosen = None if sample_ids is None else set(sample_ids)
    mols, properties = [], []
    for row in rows:
        if chosen is not None and row["sample_id"] not in chosen:
            continue
        try:
            text = stated.get(row["sample_id"]) or row["text"] or ""
            mols.append((f"{run_id} #{row['sample_id']}", decode_with(reader, text).mol))
        except DriftscopeError:
            continue
        properties.append({name: row[name] for name in PROPERTIES if row[name] is not None})
    return mols, properties
