"""Conformers out of pickles, which a closed child reads. Nothing else of the project unpickles a file.

========== ====================================================================================
references ``{smiles: {"confs": [Mol, ...], ...}}``: the group's
molecules  ``{smiles: [Mol, ...]}``: the group's generations; references of others look like that
geom       ``{"conformers": [{"rd_mol": Mol, "boltzmannweight": ...}, ...], "smiles": ...}``
========== ====================================================================================

``engine.chem.molecule_unpickler`` calls nothing but stand-ins of ours, and RDKit's reader of molecules is native code
that is given untrusted bytes.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rdkit import Chem

from engine.chem.heavy_conformers import HeavyConformer, OmittedConformer, heavy_conformers
from engine.chem.molecule_unpickler import PickledMol, load
from engine.chem.smiles import MOST_CHARACTERS
from engine.errors import ConformerError, DriftscopeError, FileFormatError, shown
from engine.sandbox import MB, Answer, Limits, Sandbox, SandboxError
from engine.user_files import open_file

Shape = Literal["references", "molecules", "geom"]
WORDS: dict[str, str] = {
    "references": "references ({smiles: {'confs': [Mol, ...]}})",
    "molecules": "generations ({smiles: [Mol, ...]})",
    "geom": "a file of GEOM ({'conformers': [{'rd_mol': Mol}]})",
}
ENDINGS = (".pickle", ".pkl", ".p")
UNREADABLE = "RDKit cannot read it"
"""Begins what is said of a molecule whose bytes are damaged; one that is missing is a generation that failed."""
MOST_BYTES = 8 * 2**30  # of a file, which is held in memory
_FIX = f"Known are {', '.join(WORDS.values())}"
_Read = tuple[str, Sequence[Any], str]
"""SMILES, positions, and why it cannot be used."""


def limits_of(size: int) -> Limits:
    """Of computing and memory, for a file of so many bytes."""
    return Limits(30 + 2 * size / MB, is_cpu=True, memory_mb=1024 + 4 * size / MB, is_closed=True)


def pickled_conformers(
    paths: Sequence[Path], shapes: Sequence[Shape] = ("references", "molecules", "geom")
) -> Iterator[HeavyConformer | OmittedConformer]:
    """The conformers of each file, in its order; FileFormatError, with the file's name, where one cannot be read or has
    none of these shapes. All files go to one process."""
    reader = Sandbox(_reader, limits=limits_of(max(map(_size, paths), default=0)))
    try:
        for path in paths:
            try:
                yield from _conformers_of(reader, path, shapes)
            except SandboxError as error:
                fix = "Split it" if error.why != "end" else "The file may be damaged, or hostile"
                raise FileFormatError(f"{shown(path.name)}: {error.what} to read", fix) from error
            except FileFormatError as error:
                raise FileFormatError(f"{shown(path.name)}: {error.what}", error.fix) from error
    finally:
        reader.end()


def _size(path: Path) -> int:
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size > MOST_BYTES:
        what = f"{shown(path.name)} has {size / MB:,.0f} MB, the limit is {MOST_BYTES / MB:,.0f}"
        raise FileFormatError(what, "Split it")
    return size


def _conformers_of(reader: Sandbox, path: Path, shapes: Sequence[Shape]) -> Iterator[HeavyConformer | OmittedConformer]:
    with open_file(path) as file:
        answers = reader.each(file.read(), tuple(shapes))
    for (key, number, weight, smiles, problem), body in answers:
        named = f"conformer {number + 1} of {shown(key, 120)}" if key else f"conformer {number + 1}"
        source = f"{named} in {path.name}" if key else f"{named} of {path.name}"
        if problem:
            yield OmittedConformer(source, key, problem)
        else:
            yield HeavyConformer(smiles, np.frombuffer(body, dtype="<f8").reshape(-1, 3), source, key, weight)


# --- in the child ----------------------------------------------------------------------------------------------------


def _reader() -> Callable[[bytes, Sequence[Shape]], Iterator[Answer]]:
    _read_mol(PickledMol(Chem.MolFromSmiles("C[C@H](N)O").ToBinary()))  # nothing can be imported later
    heavy_conformers(Chem.MolFromMolBlock(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O"))))
    return _answers


def _answers(content: bytes, shapes: Sequence[Shape]) -> Iterator[Answer]:
    """Key, number, weight, SMILES and what is wrong of each conformer, with its places."""
    for key, listed, weights in molecules_of(load(content), shapes):
        mols = map(_read_mol, listed)
        if not key:  # a file of GEOM without its SMILES: the commonest of its conformers'
            known = list(mols)
            counts = Counter(smiles for smiles, _, problem in known if not problem)
            key, mols = (counts.most_common(1)[0][0] if counts else ""), iter(known)  # type: ignore[assignment]
        for number, (smiles, positions, problem) in enumerate(mols):
            if problem:
                yield (key, number, weights[number], "", problem), b""
            for xyz in positions:
                yield (key, number, weights[number], smiles, ""), np.ascontiguousarray(xyz, dtype="<f8").tobytes()


def molecules_of(
    document: Any, shapes: Sequence[Shape]
) -> Iterator[tuple[str, Sequence[PickledMol | None], list[Any]]]:
    """Each molecule's key, conformers (None is a generation that failed) and their weights, all of one known shape."""
    if not isinstance(document, dict):
        raise FileFormatError(f"it is the pickle of a {type(document).__name__}", _FIX)
    if not document:
        raise FileFormatError("it has no molecule in it", "Give a file with at least one")
    if isinstance(records := document.get("conformers"), list):
        found = {"geom": "conformers"}
        known = [record if isinstance(record, Mapping) else {} for record in records]
        weights = [_number(record.get("boltzmannweight")) for record in known]
        of_key = [(document.get("smiles", ""), [record.get("rd_mol") for record in known], weights)]
    else:
        of_key = []
        found = {}
        for key, value in document.items():
            if not isinstance(key, str) or len(key) > MOST_CHARACTERS:
                raise FileFormatError(f"its keys are not SMILES: one is {shown(key)}", _FIX)
            is_set = isinstance(value, dict)
            listed = value.get("confs") if is_set else [value] if isinstance(value, PickledMol) else value
            if not isinstance(listed, list | tuple):
                raise FileFormatError(f"at {shown(key)} it has a {type(listed).__name__} in place of molecules", _FIX)
            found.setdefault("references" if is_set else "molecules", key)
            of_key.append((key, listed, [None] * len(listed)))
    if len(found) > 1:
        mixed = " and ".join(f"{WORDS[shape]} at {shown(key)}" for shape, key in found.items())
        raise FileFormatError(f"it mixes {mixed}", "Write each to a file of its own")
    (shape,) = found
    if shape not in shapes:
        wanted = " or ".join(map(WORDS.__getitem__, shapes))
        raise FileFormatError(f"it has {WORDS[shape]} in place of {wanted}", "`references add` takes it")
    for key, listed, weights in of_key:
        if wrong := [mol for mol in listed if not isinstance(mol, PickledMol | None)]:
            raise FileFormatError(f"at {shown(key)} it has a {type(wrong[0]).__name__} in place of a molecule", _FIX)
        text = key[:MOST_CHARACTERS] if isinstance(key, str) else ""
        yield text.encode("utf-8", "replace").decode("utf-8"), listed, weights  # half a character is none


def _number(value: Any) -> float | None:
    is_number = isinstance(value, float) or (type(value) is int and abs(value) < 2**53)
    return float(value) if is_number and math.isfinite(value) else None


def _read_mol(pickled: PickledMol | None) -> _Read:
    if pickled is None or not pickled.content:
        return "", (), "there is no molecule"
    try:
        mol = Chem.Mol(pickled.content)
        if not mol.GetNumConformers():
            raise ConformerError("it has no coordinates")
        return *heavy_conformers(mol), ""
    except DriftscopeError as error:
        return "", (), error.what[:300]
    except (RuntimeError, ValueError) as error:
        return "", (), f"{UNREADABLE}: {error}"[:300]
