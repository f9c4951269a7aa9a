"""Conformers of stored texts: one sample's, whole or in part, and all of a run's, also in a file; and how far
the group's reader misreads a run's blocks.

A whole text is read strictly. Of any other, the atoms with three readable coordinates are put together with the
bonds between them; how many are missing, and why the text was refused, is reported next to them.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode, misread_ang
from engine.chem.frame import AS_WRITTEN, add_conformer
from engine.chem.rdkit_log import captured_log
from engine.chem.rmsd import differences
from engine.chem.smiles import parse_written
from engine.chem.structure_files import to_sdf
from engine.errors import DriftscopeError
from engine.processes import made_once
from engine.records import Molecule, NumberFormat, ReaderName
from engine.store.entries import Entry, model_name, number_format_of
from engine.store.generations import conformer_texts
from engine.store.memo import computed_once
from engine.store.schema import BLOCKS
from engine.store.store import Store
from engine.text.blocks import READ_FORMAT, SOUND
from engine.text.check import answer_of, decode_each, decode_with
from engine.user_files import writing

Row = Mapping[str, Any]
PROPERTIES = (
    "run_id sample_id smiles passed decodes clean usable stereo_right geometry_right strain_kcal bad_blocks cut_blocks "
    "rmsd_ang"
).split()
OF_EACH = {"passed": "passed_each", "clean": "clean_each", "usable": "usable_each", "rmsd_ang": "rmsd_each"}
_OF_ALL = {"run_id", "sample_id", "smiles"}
PICKLE_PROTOCOL = 4
_DAMAGED = "SELECT text, x, y, z FROM blocks WHERE run_id = $run AND NOT list_contains($sound, kinds[1]) ORDER BY ALL"


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
        return _partial(error.what.removeprefix("enriched text: "), blocks, molecule)
    atoms = [row["atom"] if row["atom"] is not None else -1 for row in blocks]
    if len(atoms) != mol.GetNumAtoms():  # a cleanup removed blocks, or their rows are missing
        atoms = list(range(mol.GetNumAtoms())) if mol.GetNumAtoms() == molecule.atoms else [-1] * mol.GetNumAtoms()
    return Shape(mol, tuple(atoms), "")


@dataclass(frozen=True, slots=True, eq=False)
class GroupShape:
    """A damaged text's conformer by the group's reader, with atoms in the order of the blocks."""

    mol: Chem.Mol | None
    misread: Mapping[int, float]  # by block: how far off, in angstrom; NaN where the text states no position
    farthest: int | None  # the block of the largest displacement
    why_not: str  # the reader's error


def group_conformer_of(sample: Row, blocks: Sequence[Row], form: NumberFormat = READ_FORMAT) -> GroupShape | None:
    """What the group's reader makes of a text that ours refuses; None where there is nothing to read."""
    if not sample["text"] or not blocks:
        return None
    misread: dict[int, float] = {}
    for index, row in enumerate(blocks):
        ang = misread_ang(row["text"] or "", (row["x"], row["y"], row["z"]), form)
        if ang is not None:
            misread[index] = ang
    finite = {index: ang for index, ang in misread.items() if math.isfinite(ang)}
    farthest = max(finite, key=finite.__getitem__, default=None)
    try:
        return GroupShape(decode_with("group", sample["text"], form).mol, misread, farthest, "")
    except DriftscopeError as error:
        return GroupShape(None, misread, farthest, error.what)


def _partial(reason: str, blocks: Sequence[Row], molecule: Molecule) -> Shape:
    places = [(row["atom"], (row["x"], row["y"], row["z"])) for row in blocks]
    positions = {atom: xyz for atom, xyz in places if None not in xyz}
    kept = sorted(atom for atom in positions if atom is not None and 0 <= atom < molecule.atoms)
    if not kept:
        return Shape(None, (), f"The strict reader refuses the text: {reason}.")
    with captured_log():
        mol = Chem.RWMol(molecule.mol)
        mol.RemoveAllConformers()
        if gone := set(range(molecule.atoms)).difference(kept):  # rings that are not whole are no longer aromatic
            Chem.Kekulize(mol, clearAromaticFlags=True)
            mol.BeginBatchEdit()
            for atom in gone:
                mol.RemoveAtom(atom)
            mol.CommitBatchEdit()
            for atom in mol.GetAtoms():
                atom.SetNoImplicit(True)  # removed neighbours are not replaced by hydrogens
            mol.UpdatePropertyCache(strict=False)
    add_conformer(mol, [positions[atom] for atom in kept])
    words = f"The strict reader refuses the text: {reason}. Shown are {len(kept)} of {molecule.atoms} atoms, as far as"
    return Shape(mol.GetMol(), tuple(kept), f"{words} their blocks can be read.")


def conformers_of(
    store: Store, run_id: str, sample_ids: Sequence[int] | None = None, reader: ReaderName = "strict"
) -> tuple[list[tuple[str, Chem.Mol]], list[dict[str, Any]]]:
    """A run's named molecules and their properties, by sample, and where an answer has several conformers each of them,
    named ``sample/conformer``; texts that the reader refuses are left out."""
    rows = store.rows(
        f"""SELECT text, {", ".join((*PROPERTIES, *OF_EACH.values()))} FROM samples
        WHERE run_id = $run AND ($ids IS NULL OR list_contains($ids, sample_id)) ORDER BY sample_id""",
        {"run": run_id, "ids": sample_ids},
    )
    mols, properties = [], []
    for row, mol in _read(store, store.entry(run_id), rows, reader):
        if not isinstance(mol, str):
            number = f"/{row['conformer']}" if row["conformer"] else ""
            mols.append((f"{run_id} #{row['sample_id']}{number}", mol))
            properties.append(properties_of(row, row["conformer"]))
    return mols, properties


def properties_of(sample: Row, conformer: int | None) -> dict[str, Any]:
    """What a file says of a conformer. ``conformer`` is its number where its answer has several: then what is only
    known of the whole answer is left out."""
    if conformer is None:
        return {name: sample[name] for name in PROPERTIES if sample.get(name) is not None}
    of_it = {name: sample[name] for name in PROPERTIES if name in _OF_ALL}
    for name, column in OF_EACH.items():
        each = sample.get(column) or ()
        of_it[name] = each[conformer - 1] if conformer <= len(each) else None
    return {"conformer": conformer} | {name: value for name, value in of_it.items() if value is not None}


def difference_columns(mols: Sequence[Chem.Mol]) -> dict[str, float]:
    """Columns of a sample: how far the conformers of its answer, of one molecule, are from one another."""
    with suppress(DriftscopeError):
        if (least_and_mean := differences(mols)) is not None:
            return dict(zip(("differ_least_ang", "differ_mean_ang"), least_and_mean, strict=True))
    return {}


def _read(store: Store, entry: Entry, rows: Iterable[Row], reader: ReaderName) -> Iterator[tuple[Row, Chem.Mol | str]]:
    """Each conformer of each sample as the reader takes it, or why it refuses it; ``conformer`` is its number where
    there are several, else None."""
    stated = conformer_texts(store, entry, reader=reader)
    for row in rows:
        each = decode_each(reader, stated.get(row["sample_id"]) or row["text"] or "")
        for number, decoded in enumerate(each, 1):
            of_it = {**row, "conformer": number if len(each) > 1 else None}
            if isinstance(decoded, DriftscopeError):
                yield of_it, decoded.what
                continue
            if row["sample_id"] in stated:  # a text of ours, for numbers that no encoder has truncated
                decoded.mol.ClearProp(AS_WRITTEN)
            yield of_it, decoded.mol


@computed_once(64)
def why_no_conformers(store: Store, entry: Entry, reader: ReaderName = "strict") -> str:
    """Why the reader takes no text of a run, by the first one; empty where it takes any."""
    rows = store.rows("SELECT sample_id, text FROM samples WHERE run_id = $run ORDER BY sample_id", {"run": entry.id})
    first = ""
    for _, mol in _read(store, entry, rows, reader):
        if not isinstance(mol, str):
            return ""
        first = first or mol
    named = "strict" if reader == "strict" else "group's"
    return f"No text has a conformer that the {named} reader takes. The first: {first or 'there is none'}."


def write_conformers(store: Store, run_id: str, path: Path, reader: ReaderName, *, is_pickle: bool) -> int:
    """Of each conformer that the reader takes, as SDF or as the group's evaluation reads them, ``generations.pickle``;
    returns how many. A pickle is ``{smiles: [Mol, ...]}`` by the SMILES that was asked for."""
    mols, properties = conformers_of(store, run_id, reader=reader)
    by_smiles: dict[str, list[Chem.Mol]] = {}
    for (_, mol), sample in zip(mols, properties, strict=True):
        by_smiles.setdefault(sample["smiles"], []).append(mol)
    with writing(path) as file:
        file.write(pickle.dumps(by_smiles, PICKLE_PROTOCOL) if is_pickle else to_sdf(mols, properties).encode())
    return len(mols)


@made_once(256)
def references_of(smiles: str, count: int, most_s: float) -> Chem.Mol | str:
    """ETKDG's conformers of a molecule, made once for all lanes and pages of a process; or why there are none."""
    try:
        return reference_conformers(parse_written(smiles), count, max_seconds=most_s)
    except DriftscopeError as error:
        return str(error)


@computed_once(1_000)
def misread_of(store: Store, entry: Entry) -> dict[str, Any]:
    """Blocks that the group's reader misreads without an error, counted in the stored ones, so of runs of any schema
    version. ``most_ang`` is null, and the ``text`` of that block empty, where no misread block states three numbers."""
    blocks = store.table(_DAMAGED, {"run": entry.id, "sound": sorted(SOUND)}, of=[entry.id]).to_pylist()
    form = number_format_of(entry) or READ_FORMAT
    far = [(misread_ang(block["text"], (block["x"], block["y"], block["z"]), form), block["text"]) for block in blocks]
    misread = [(ang, text) for ang, text in far if ang is not None]
    most_ang, text = max((block for block in misread if math.isfinite(block[0])), default=(None, ""))
    return {
        "model": model_name(entry.row),
        "lp": str(entry.row.get("lp") or "unknown LP"),
        "origin": entry.row["origin"],
        "misread": len(misread),
        "blocks": entry.parts[BLOCKS.name].rows,
        "most_ang": most_ang,
        "text": text,
        "run_id": entry.id,
    }
