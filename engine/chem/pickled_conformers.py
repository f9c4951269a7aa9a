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
from collections.abc import Callable, Iterator, Sequence
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
SHAPES: dict[Shape, str] = {
    "references": "references ({smiles: {'confs': [Mol, ...]}})",
    "molecules": "generations ({smiles: [Mol, ...]})",
    "geom": "a file of GEOM ({'conformers': [{'rd_mol': Mol}]})",
}
UNREADABLE = "RDKit cannot read it"
"""Begins what is said of a molecule whose bytes are damaged; one that is missing is a generation that failed."""
MOST_BYTES = 8 * 2**30  # of a file, which is held in memory
_FIX = f"Known are {', '.join(SHAPES.values())}"


def limits_of(size: int) -> Limits:
    """Of computing and memory, for a file of so many bytes."""
    return Limits(30 + 2 * size / MB, is_cpu=True, memory_mb=1024 + 4 * size / MB, is_closed=True)


def pickled_conformers(
    paths: Sequence[Path], shapes: Sequence[Shape] = tuple(SHAPES)
) -> Iterator[HeavyConformer | OmittedConformer]:
    """The conformers of each file, in its order; FileFormatError, with the file's name, where one cannot be read or has
    none of these shapes. All files go to one process."""
    reader = Sandbox(_reader, limits=limits_of(max(path.stat().st_size for path in paths)))
    try:
        for path in paths:
            if path.stat().st_size > MOST_BYTES:
                raise FileFormatError(f"it has over {MOST_BYTES / MB:,.0f} MB", "Split it")
            with open_file(path) as file:
                content = file.read()
            for (key, number, weight, smiles, problem), body in reader.each(content, tuple(shapes)):
                source = f"conformer {number + 1}{f' of {shown(key, 120)} in' if key else ' of'} {path.name}"
                if problem:
                    yield OmittedConformer(source, key, problem)
                else:
                    yield HeavyConformer(smiles, np.frombuffer(body, dtype="<f8").reshape(-1, 3), source, key, weight)
    except SandboxError as error:
        fix = "Split it" if error.why != "end" else "The file may be damaged, or hostile"
        raise FileFormatError(f"{shown(path.name)}: {error.what} to read", fix) from error
    except FileFormatError as error:
        raise FileFormatError(f"{shown(path.name)}: {error.what}", error.fix) from error
    finally:
        reader.end()


# --- in the child ----------------------------------------------------------------------------------------------------


def _reader() -> Callable[[bytes, Sequence[Shape]], Iterator[Answer]]:
    _read_mol(PickledMol(Chem.MolFromSmiles("C[C@H](N)O").ToBinary()))  # nothing can be imported later
    heavy_conformers(Chem.MolFromMolBlock(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O"))))
    return _answers


def _answers(content: bytes, shapes: Sequence[Shape]) -> Iterator[Answer]:
    """Key, number, weight, SMILES and what is wrong of each conformer, with its places."""
    for key, listed, weights in molecules_of(load(content), shapes):
        for number, (pickled, weight) in enumerate(zip(listed, weights, strict=True)):
            smiles, positions, problem = _read_mol(pickled)
            if problem:
                yield (key, number, weight, "", problem), b""
            for xyz in positions:
                yield (key, number, weight, smiles, ""), np.ascontiguousarray(xyz, dtype="<f8").tobytes()


def molecules_of(document: Any, shapes: Sequence[Shape]) -> Iterator[tuple[str, Sequence[Any], Sequence[Any]]]:
    """Each molecule's key, conformers (None is a generation that failed) and their weights, all of one known shape."""
    if not isinstance(document, dict) or not document:
        raise FileFormatError(f"it is the pickle of a {type(document).__name__} that is no mapping, or empty", _FIX)
    shape: Shape = "references" if any(isinstance(value, dict) for value in document.values()) else "molecules"
    entries, weights = list(document.items()), None
    if isinstance(records := document.get("conformers"), list):
        records = [record if isinstance(record, dict) else {} for record in records]
        shape, weights = "geom", [_number(record.get("boltzmannweight")) for record in records]
        entries = [(document.get("smiles", ""), [record.get("rd_mol") for record in records])]
    if shape not in shapes:
        wanted = " or ".join(SHAPES[shape] for shape in shapes)
        raise FileFormatError(f"it has {SHAPES[shape]} in place of {wanted}", "`references add` takes it")
    for key, listed in entries:
        if shape == "references":
            listed = listed.get("confs") if isinstance(listed, dict) else ""
        listed = [listed] if isinstance(listed, PickledMol) else listed
        if not isinstance(key, str) or len(key) > MOST_CHARACTERS:
            raise FileFormatError(f"its keys are not SMILES: one is {shown(key)}", _FIX)
        if not isinstance(listed, list | tuple) or not all(isinstance(one, PickledMol | None) for one in listed):
            raise FileFormatError(f"at {shown(key)} it has something else in place of molecules", _FIX)
        # half a character is none
        yield key.encode("utf-8", "replace").decode("utf-8"), listed, weights or [None] * len(listed)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, float) or (type(value) is int and abs(value) < 2**53)
    return float(value) if is_number and math.isfinite(value) else None


def _read_mol(pickled: PickledMol | None) -> tuple[str, Sequence[Any], str]:
    """SMILES, positions, and why it cannot be used."""
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
