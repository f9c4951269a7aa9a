"""Molecules with coordinates in and out of files: SDF and XYZ out; SDF, MOL and pasted mol blocks in.

RDKit reads mol blocks in a closed child: one on which it ends costs that child and a sentence. What is read keeps its
hydrogens and its conformer. Names and values come from outside: nothing in them ends a record or starts a property.
What this module does not know: which stereo was left open, since a 3D record has none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from rdkit import Chem

from engine.chem.enriched import MOST_ATOMS
from engine.chem.file_forms import damaged, form_by_name, sdf_records
from engine.chem.frame import check_finite, conformer_of, conformers_of
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import MOST_RINGS, rings_in
from engine.errors import FileFormatError, UnsupportedMoleculeError, shown
from engine.sandbox import Answer, Limits, Sandbox, SandboxError

MOST_MOLECULES = 10_000
_VERSION = re.compile(r" V[23]000\s*$", re.MULTILINE)
_KEPT = int(Chem.PropertyPickleOptions.AllProps | Chem.PropertyPickleOptions.CoordsAsDouble)

MolOrPair: TypeAlias = Chem.Mol | tuple[str, Chem.Mol]


def to_sdf(mols_or_pairs: Iterable[MolOrPair], properties: Sequence[Mapping[str, object]] | None = None) -> str:
    """SDF text, one record a conformer. Items are molecules or (name, molecule), ``properties`` a mapping for
    each, with names of ours."""
    items = list(mols_or_pairs)
    records = []
    for item, data in zip(items, [{}] * len(items) if properties is None else properties, strict=True):
        name, mol = item if isinstance(item, tuple) else ("", item)
        unnamed = Chem.Mol(mol)
        unnamed.SetProp("_Name", "")
        fields = "".join(f">  <{key}>\n{_safe_line(value)}\n\n" for key, value in data.items())
        for conformer in conformers_of(mol):
            check_finite(conformer.GetPositions())
            with captured_log():
                try:
                    block = Chem.MolToMolBlock(unnamed, confId=conformer.GetId())  # it begins with its empty title line
                except (RuntimeError, ValueError) as error:
                    raise UnsupportedMoleculeError(f"a molecule cannot be written as SDF: {error}") from error
            records.append(f"{_safe_line(name)}{block}{fields}$$$$\n")
    return "".join(records)


def to_xyz(mol: Chem.Mol) -> str:
    """XYZ text of the first conformer. Atoms as in ``mol``."""
    check_finite(conformer_of(mol).GetPositions())
    return str(Chem.MolToXYZBlock(mol))


def _safe_line(text: object) -> str:
    """One line without control characters; a space keeps it from reading as the end of a record or a property."""
    visible = (char if unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") else " " for char in str(text))
    line = " ".join("".join(visible).split())
    return f" {line}" if line.startswith(("$$$$", ">", "M  END", "M END")) else line


def read_molecules(path: Path) -> list[Chem.Mol]:
    """The molecules of an SDF or MOL file in its order, with their hydrogens and their conformer."""
    if form_by_name(path) != "sdf":
        raise FileFormatError(f"{shown(path, 200)} is no SDF or MOL file", "Give a .sdf or .mol, either also as .gz")
    mols: list[Chem.Mol] = []
    for number, record in enumerate(sdf_records(path), start=1):
        if number > MOST_MOLECULES:
            raise FileFormatError(f"{shown(path.name)} has more than {MOST_MOLECULES:,} records", "Split the file")
        mols.append(read_record(path.name, number, record)[1])
    if not mols:
        raise FileFormatError(f"{shown(path.name)} has no molecule in it", "Give a file with at least one record")
    return mols


def has_mol_block(text: str) -> bool:
    return "M  END" in text and _VERSION.search(text) is not None


def smiles_of_mol_blocks(text: str, *, most: int) -> list[str]:
    """Of mol blocks that were pasted, one or more: the lines before the counts may be missing, or be one too many."""
    blocks = text.split("M  END")[:-1]
    if len(blocks) > most:
        raise FileFormatError(f"{len(blocks):,} mol blocks are pasted", f"Paste at most {most}")
    found = []
    for number, block in enumerate(blocks, start=1):
        lines = block.splitlines()
        counts = next((place for place, line in enumerate(lines) if _VERSION.search(line)), 0)
        found.append(read_record("the pasted text", number, [*[""] * 3, *lines[counts:], "M  END"])[0])
    return found


def read_record(name: str, number: int, record: Sequence[str]) -> tuple[str, Chem.Mol]:
    """The SMILES without hydrogens, and the molecule with them and its conformer; an error names file and record."""
    end = next((index for index, line in enumerate(record) if line.startswith("M  END")), len(record)) + 1
    block = "\n".join(record[:end]) + "\n"
    try:  # RDKit cuts its messages inside characters and then fails on them: it is given ASCII
        smiles, content = BLOCK_READER.ask(block.encode("ascii", "replace").decode("ascii"))
    except SandboxError as error:
        reason = "its reader ended on it" if error.why == "end" else f"{error.what} to read"
        raise damaged(name, number, reason) from error
    except FileFormatError as error:
        raise damaged(name, number, error.what) from error
    return smiles, Chem.Mol(content)


# --- in the child ----------------------------------------------------------------------------------------------------


def _block_reader() -> Callable[[str], Answer]:
    _of_block(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O")))  # nothing can be imported later
    return _of_block


def _of_block(block: str) -> Answer:
    with captured_log() as lines:
        try:
            mol = Chem.MolFromMolBlock(block, removeHs=False)
            smiles = None if mol is None or mol.GetNumAtoms() > MOST_ATOMS else Chem.MolToSmiles(Chem.RemoveHs(mol))
        except (RuntimeError, ValueError) as error:
            raise FileFormatError(str(error).strip().partition("\n")[0] or "it is no molecule") from error
    if mol is None:
        reasons = (line for line in reversed(lines) if re.search("[A-Za-z]", line))
        raise FileFormatError(next(reasons, "its atoms and bonds do not fit together")[:200])
    if smiles is None or rings_in(mol) > MOST_RINGS:
        raise FileFormatError(f"it has over {MOST_ATOMS:,} atoms or over {MOST_RINGS} rings")
    if mol.GetNumAtoms() == 0 or any(atom.HasQuery() for atom in mol.GetAtoms()):
        raise FileFormatError("it has no atoms, or a list of elements or a pattern in the place of one")
    return smiles, bytes(mol.ToBinary(_KEPT))


BLOCK_READER = Sandbox(_block_reader, limits=Limits(4, is_cpu=True, memory_mb=1024, is_closed=True))
