"""Mol blocks as molecules. RDKit reads them in the sandbox, so that a text on which it ends, or which takes it too much
time or memory, costs that process and a sentence. One closed process for all, started with the first block."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from rdkit import Chem

from engine.chem.enriched import MOST_ATOMS
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import MOST_RINGS, MOST_SMALLEST_RINGS, rings_in
from engine.errors import DriftscopeError
from engine.sandbox import Answer, Limits, Sandbox, SandboxError

SECONDS = 4
_KEPT = int(Chem.PropertyPickleOptions.AllProps | Chem.PropertyPickleOptions.CoordsAsDouble)


class BlockError(DriftscopeError):
    """Why a block is no molecule; nothing of its text but elements."""


def mol_of_block(block: str) -> Chem.Mol:
    """With its hydrogens and its conformer; BlockError where RDKit, or a limit, does not take it."""
    # RDKit cuts its messages inside characters and then fails on them: it is given ASCII.
    try:
        problem, content = READER.ask(block.encode("ascii", "replace").decode("ascii"))
    except SandboxError as error:
        told = "its reader ended on it" if error.why == "end" else f"{error.what} to read"
        raise BlockError(told.replace(" of memory", "")) from error
    if problem:
        raise BlockError(problem)
    return Chem.Mol(content)


def _reader() -> Callable[[str], Answer]:
    _answer(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O")))  # nothing can be imported later
    return _answer


def _answer(block: str) -> Answer:
    """What is wrong with it, and the molecule."""
    try:
        return "", bytes(_molecule(block).ToBinary(_KEPT))
    except BlockError as error:
        return error.what, b""


READER = Sandbox(_reader, limits=Limits(SECONDS, is_cpu=True, memory_mb=1024, is_closed=True))


def _molecule(block: str) -> Chem.Mol:
    with captured_log() as lines:
        try:
            raw = Chem.MolFromMolBlock(block, sanitize=False, removeHs=False)
            if raw is not None and raw.GetNumAtoms() > MOST_ATOMS:
                raise BlockError(f"it has over {MOST_ATOMS:,} atoms")
            if raw is not None and rings_in(raw) > MOST_RINGS:
                raise BlockError(f"it has over {MOST_RINGS} rings")
            mol = Chem.MolFromMolBlock(block, removeHs=False)
        except (RuntimeError, ValueError) as error:
            raise BlockError(_without_content(str(error).strip().splitlines()[:1])) from error
    if mol is None:
        raise BlockError(_without_content(lines))
    if mol.GetNumAtoms() == 0:
        raise BlockError("it has no atoms")
    if mol.GetRingInfo().NumRings() > MOST_SMALLEST_RINGS:
        raise BlockError(f"it has over {MOST_RINGS} rings")
    if mol.GetNumConformers() and not np.isfinite(mol.GetConformer().GetPositions()).all():
        raise BlockError("a coordinate is not finite")
    return mol


def _without_content(lines: Sequence[str]) -> str:
    """RDKit's last line, without what it quotes of the file but elements; of a failed check of its own, none."""
    line = next((line for line in reversed(lines) if line), "it is no molecule")
    if not re.search("[A-Za-z]", line):
        return "its atoms and bonds do not fit together"
    return line if re.match("Element '[^']{0,4}'", line) else re.sub(r"(['\"]).*\1", "a value", line)
