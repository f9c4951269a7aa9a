"""The process that reads pickles for ``engine.chem.pickled_conformers``.

It is given a file's bytes and answers with texts and coordinates. Two things in it are not to be trusted: the pickle
(``engine.chem.molecule_unpickler`` calls nothing but stand-ins of ours), and RDKit's reader of molecules, native code
that is given bytes of strangers. So before the first byte is read, the process gives up what it could do harm with. The
kernel lets it open no further file, socket or pipe (``RLIMIT_NOFILE`` of 0), write to no file, start no process (where
it is not root's), and grow and compute no further than its limits; an audit hook refuses whatever Python code would do
beyond computing. The kernel's limits hold for native code too; the hook sees Python's own actions alone. Neither is a
wall: what took over this process could still answer wrongly, so its parent checks each answer as it would a file.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from rdkit import Chem

from engine.chem.heavy_conformers import heavy_conformers
from engine.chem.molecule_unpickler import PickledMol, load
from engine.chem.pickle_shapes import UNREADABLE, PickledMolecule, Shape, molecules_of, shape_of
from engine.errors import ConformerError, DriftscopeError, FileFormatError, one_line
from engine.processes import address_space

MOST_REASON = 300
HARMLESS = frozenset({"sys._getframe", "object.__getattr__", "object.__setattr__", "object.__delattr__"})
"""Audit events of code that only computes; logging looks at its caller's frame."""


@dataclass(frozen=True, slots=True)
class ReadMol:
    """A molecule of a pickle, or why it cannot be used."""

    smiles: str
    positions: tuple[Any, ...]
    problem: str = ""


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    limits = json.loads(source.readline())
    _warm_up()
    give_up_rights(limits["memory_mb"])
    while line := source.readline():
        signal.setitimer(signal.ITIMER_PROF, limits["seconds"])  # the default of its signal ends the process
        _answer(sink, _read(source, json.loads(line)["bytes"]))
    os._exit(0)


def give_up_rights(memory_mb: int) -> None:
    """For good: no limit can be raised again, and no audit hook removed."""
    size = address_space()  # first: it opens a file
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        resource.setrlimit(limit, (0, 0))
    if size is not None:
        most = size + memory_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.addaudithook(_refuse)


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if event not in HARMLESS:
        raise PermissionError(f"{event} while a pickle is read")


def _warm_up() -> None:
    """Nothing can be imported later."""
    mol = Chem.Mol(Chem.MolFromSmiles("C[C@H](N)O").ToBinary())
    heavy_conformers(mol)
    _problem(ConformerError("none"))
    json.dumps({"é": 0.5})
    np.zeros(3).tobytes()


def _read(source: BinaryIO, size: int) -> bytes:
    content = source.read(size)
    if len(content) < size:  # the parent has ended
        os._exit(1)
    return content


def _answer(sink: BinaryIO, content: bytes) -> None:
    try:
        document = load(content)
        shape = shape_of(document)
        _send(sink, {"shape": shape})
        for molecule in molecules_of(document, shape):
            _send_molecule(sink, molecule, shape)
        _send(sink, {"end": True})
    except FileFormatError as error:
        _send(sink, {"what": error.what, "fix": error.fix})
    except (MemoryError, PermissionError) as error:
        what = "it asks for too much memory" if isinstance(error, MemoryError) else f"it tried to do more: {error}"
        _send(sink, {"what": what, "fix": "Do not trust this file, or split it"})


def _send_molecule(sink: BinaryIO, molecule: PickledMolecule, shape: Shape) -> None:
    mols: Iterator[ReadMol] = map(_read_mol, molecule.mols)
    key = molecule.key
    if not key:  # a file of GEOM without its SMILES: the commonest of its conformers'
        known = list(mols)
        counts = Counter(mol.smiles for mol in known if not mol.problem)
        key, mols = (counts.most_common(1)[0][0] if counts else ""), iter(known)
    for number, (mol, weight) in enumerate(zip(mols, molecule.weights, strict=True)):
        head = {"key": key, "number": number, "weight": weight}
        if mol.problem:
            _send(sink, {**head, "problem": mol.problem})
        for xyz in mol.positions:
            _send(sink, {**head, "smiles": mol.smiles}, np.ascontiguousarray(xyz, dtype="<f8").tobytes())


def _read_mol(pickled: PickledMol) -> ReadMol:
    if not pickled.content:
        return ReadMol("", (), "there is no molecule")
    try:
        mol = Chem.Mol(pickled.content)
        if not mol.GetNumConformers():
            raise ConformerError("it has no coordinates")
        smiles, positions = heavy_conformers(mol)
    except (RuntimeError, ValueError, DriftscopeError) as error:
        return ReadMol("", (), _problem(error))
    return ReadMol(smiles, tuple(positions))


def _problem(error: Exception) -> str:
    what = error.what if isinstance(error, DriftscopeError) else f"{UNREADABLE}: {error}"
    return one_line(what)[:MOST_REASON]


def _send(sink: BinaryIO, head: dict[str, object], body: bytes = b"") -> None:
    sink.write(json.dumps({**head, "bytes": len(body)}).encode("ascii") + b"\n" + body)
    if "end" in head or "what" in head:
        sink.flush()
