"""Mol blocks as molecules. RDKit reads them in a process of its own, so that a text on which it ends, or which takes it
too much time or memory, costs that process and a sentence. One process for all, started with the first block.

The process may do what ``engine.chem.pickle_child`` leaves it: compute.
"""

from __future__ import annotations

import re
import signal
import struct
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

import numpy as np
from rdkit import Chem

from engine.chem.enriched import MOST_ATOMS
from engine.chem.pickle_child import give_up_rights
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import MOST_RINGS, MOST_SMALLEST_RINGS, rings_in
from engine.errors import DriftscopeError
from engine.processes import WorkerProcess

SECONDS, MEMORY_MB = 4, 1024

_READ, _REFUSED = b"+", b"-"
_COST = struct.Struct("d")
_KEPT = int(Chem.PropertyPickleOptions.AllProps | Chem.PropertyPickleOptions.CoordsAsDouble)
_TOO_MUCH_MEMORY = f"it takes over {MEMORY_MB / 1024:.0f} GB to read".encode("ascii")
_TOO_SLOW = f"it takes over {SECONDS} s to read".encode("ascii")


class BlockError(DriftscopeError):
    """Why a block is no molecule; nothing of its text but elements."""


def mol_of_block(block: str) -> Chem.Mol:
    """With its hydrogens and its conformer; BlockError where RDKit, or a limit, does not take it."""
    # RDKit cuts its messages inside characters and then fails on them: it is given ASCII.
    seconds, answer = _READER.answer(block.encode("ascii", "replace"))
    _SPENT.seconds = spent_s() + seconds
    if answer.startswith(_REFUSED):
        raise BlockError(answer[1:].decode("utf-8", "replace"), "")
    return Chem.Mol(answer[1:])


def spent_s() -> float:
    """What the blocks of this thread have cost, in seconds of computing."""
    return float(getattr(_SPENT, "seconds", 0.0))


class _Reader:
    """The process, for one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None

    def answer(self, block: bytes) -> tuple[float, bytes]:
        with self._lock:
            for is_last in (self._process is None, True):  # what an older process read before may be the cause
                self._process = self._process or WorkerProcess(_serve)
                try:
                    self._process.connection.send_bytes(block)
                    answer = self._process.connection.recv_bytes()
                except (EOFError, OSError):
                    is_slow = self._process.process.wait() == -signal.SIGPROF
                    self._process = None
                    if is_slow:
                        return SECONDS, _REFUSED + _TOO_SLOW
                    if is_last:
                        break
                else:
                    return *_COST.unpack_from(answer), answer[_COST.size :]
            return 1.0, _REFUSED + b"its reader ended on it"  # the next one has to be started


_READER = _Reader()
_SPENT = threading.local()


def _serve(connection: Connection) -> None:
    _answer(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O")))  # nothing can be imported later
    give_up_rights(MEMORY_MB)
    while True:
        block = connection.recv_bytes().decode("ascii")
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # the default of its signal ends the process
        answer = _answer(block)
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(_COST.pack(time.process_time() - started) + answer)


def _answer(block: str) -> bytes:
    try:
        return _READ + bytes(_molecule(block).ToBinary(_KEPT))
    except BlockError as error:
        return _REFUSED + error.what.encode("utf-8")
    except MemoryError:
        return _REFUSED + _TOO_MUCH_MEMORY


def _molecule(block: str) -> Chem.Mol:
    with captured_log() as lines:
        try:
            raw = Chem.MolFromMolBlock(block, sanitize=False, removeHs=False)
            if raw is not None and raw.GetNumAtoms() > MOST_ATOMS:
                raise BlockError(f"it has over {MOST_ATOMS:,} atoms", "")
            if raw is not None and rings_in(raw) > MOST_RINGS:
                raise BlockError(f"it has over {MOST_RINGS} rings", "")
            mol = Chem.MolFromMolBlock(block, removeHs=False)
        except (RuntimeError, ValueError) as error:
            raise BlockError(_without_content(str(error).strip().splitlines()[:1]), "") from error
    if mol is None:
        raise BlockError(_without_content(lines), "")
    if mol.GetNumAtoms() == 0:
        raise BlockError("it has no atoms", "")
    if mol.GetRingInfo().NumRings() > MOST_SMALLEST_RINGS:
        raise BlockError(f"it has over {MOST_RINGS} rings", "")
    if mol.GetNumConformers() and not np.isfinite(mol.GetConformer().GetPositions()).all():
        raise BlockError("a coordinate is not finite", "")
    return mol


def _without_content(lines: Sequence[str]) -> str:
    """RDKit's last line, without what it quotes of the file but elements; of a failed check of its own, none."""
    line = next((line for line in reversed(lines) if line), "it is no molecule")
    if not re.search("[A-Za-z]", line):
        return "its atoms and bonds do not fit together"
    return line if re.match("Element '[^']{0,4}'", line) else re.sub(r"(['\"]).*\1", "a value", line)
