"""Conformers out of pickles, which the sandbox reads, closed. Nothing else of the project unpickles a file.

``engine.chem.molecule_unpickler`` calls nothing but stand-ins of ours, and RDKit's reader of molecules is native code
that is given bytes of strangers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem

from engine.chem.heavy_conformers import HeavyConformer, OmittedConformer, heavy_conformers
from engine.chem.molecule_unpickler import PickledMol, load
from engine.chem.pickle_shapes import UNREADABLE, WORDS, Shape, molecules_of, shape_of
from engine.errors import ConformerError, DriftscopeError, FileFormatError, one_line, shown
from engine.sandbox import MB, Answer, Limits, Sandbox, SandboxError
from engine.user_files import open_file

ENDINGS = (".pickle", ".pkl", ".p")
MOST_REASON = 300
ReadMol = tuple[str, tuple[Any, ...], str]
"""SMILES, positions, and why it cannot be used."""


@dataclass(frozen=True, slots=True)
class PickleLimits:
    """What reading one file may take."""

    most_bytes: int = 8 * 2**30  # of the file, which is held in memory
    least_memory_mb: int = 1024
    memory_per_byte: float = 4.0  # of the largest file, beside that
    least_seconds: float = 30.0  # of computing
    seconds_per_mb: float = 2.0

    def of(self, size: int) -> Limits:
        seconds, memory_mb = self.least_seconds + self.seconds_per_mb * size / MB, self.memory_per_byte * size / MB
        return Limits(seconds, is_cpu=True, memory_mb=self.least_memory_mb + memory_mb, is_closed=True)


def pickled_conformers(
    paths: Sequence[Path], shapes: Sequence[Shape] = tuple(WORDS), *, limits: PickleLimits | None = None
) -> Iterator[HeavyConformer | OmittedConformer]:
    """The conformers of each file, in its order; FileFormatError, with the file's name, where one cannot be read or has
    none of these shapes. All files go to one process."""
    limits = limits or PickleLimits()
    sizes = [_size(path, limits) for path in paths]
    reader = Sandbox(_reader, limits=limits.of(max(sizes, default=0)))
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


def _size(path: Path, limits: PickleLimits) -> int:
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size > limits.most_bytes:
        what = f"{shown(path.name)} has {size / MB:,.0f} MB, the limit is {limits.most_bytes / MB:,.0f}"
        raise FileFormatError(what, "Split it")
    return size


def _conformers_of(reader: Sandbox, path: Path, shapes: Sequence[Shape]) -> Iterator[HeavyConformer | OmittedConformer]:
    with open_file(path) as file:
        answers = reader.each(file.read())
    for value, body in answers:
        if isinstance(value, str):
            if value not in shapes:
                wanted = " or ".join(WORDS[one] for one in shapes)
                fix = "`references add` takes it"
                raise FileFormatError(f"it has {WORDS[value]} in place of {wanted}", fix)  # type: ignore[index]
            continue
        key, number, weight, smiles, problem = value
        named = f"conformer {number + 1} of {shown(key, 120)}" if key else f"conformer {number + 1}"
        source = f"{named} in {path.name}" if key else f"{named} of {path.name}"
        if problem:
            yield OmittedConformer(source, key, problem)
        else:
            yield HeavyConformer(smiles, np.frombuffer(body, dtype="<f8").reshape(-1, 3), source, key, weight)


# --- in the child ----------------------------------------------------------------------------------------------------


def _reader() -> Callable[[bytes], Iterator[Answer]]:
    _read_mol(PickledMol(Chem.MolFromSmiles("C[C@H](N)O").ToBinary()))  # nothing can be imported later
    heavy_conformers(Chem.MolFromMolBlock(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O"))))
    return _answers


def _answers(content: bytes) -> Iterator[Answer]:
    """The file's shape; then key, number, weight, SMILES and what is wrong of each conformer, with its places."""
    document = load(content)
    shape = shape_of(document)
    yield shape, b""
    for molecule in molecules_of(document, shape):
        mols: Iterator[ReadMol] = map(_read_mol, molecule.mols)
        key = molecule.key
        if not key:  # a file of GEOM without its SMILES: the commonest of its conformers'
            known = list(mols)
            counts = Counter(smiles for smiles, _, problem in known if not problem)
            key, mols = (counts.most_common(1)[0][0] if counts else ""), iter(known)
        key = key.encode("utf-8", "replace").decode("utf-8")  # half a character is none
        for number, ((smiles, positions, problem), weight) in enumerate(zip(mols, molecule.weights, strict=True)):
            if problem:
                yield (key, number, weight, "", problem), b""
            for xyz in positions:
                yield (key, number, weight, smiles, ""), np.ascontiguousarray(xyz, dtype="<f8").tobytes()


def _read_mol(pickled: PickledMol) -> ReadMol:
    if not pickled.content:
        return "", (), "there is no molecule"
    try:
        mol = Chem.Mol(pickled.content)
        if not mol.GetNumConformers():
            raise ConformerError("it has no coordinates")
        smiles, positions = heavy_conformers(mol)
    except (RuntimeError, ValueError, DriftscopeError) as error:
        what = error.what if isinstance(error, DriftscopeError) else f"{UNREADABLE}: {error}"
        return "", (), one_line(what)[:MOST_REASON]
    return smiles, tuple(positions), ""
