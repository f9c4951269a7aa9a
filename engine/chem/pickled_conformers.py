"""Conformers out of pickles, which are read in a process of their own: ``engine.chem.pickle_child`` says what it may
not do. Nothing here, and nothing else of the project, unpickles a file.

What the process answers is checked like a file of strangers: JSON, SMILES that this process reads itself, and numbers.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.chem.heavy_conformers import HeavyConformer, OmittedConformer
from engine.chem.pickle_shapes import WORDS, Shape
from engine.chem.smiles import MOST_CHARACTERS
from engine.errors import FileFormatError, one_line, shown
from engine.paths import ROOT
from engine.user_files import open_file, parsed_json

ENDINGS = (".pickle", ".pkl", ".p")
_COMMAND = [sys.executable, "-P", "-B", "-c", "from engine.chem.pickle_child import main; main()"]
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT")
_MB = 2**20
_MOST_HEAD = 1 << 20
_MOST_BODY = 1 << 20
_LEAST_ANSWERS = 1_000
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PickleLimits:
    """What reading one file may take."""

    most_bytes: int = 8 * 2**30  # of the file, which is held in memory
    least_memory_mb: int = 1024
    memory_per_byte: float = 4.0  # of the largest file, beside that
    least_seconds: float = 30.0  # of computing
    seconds_per_mb: float = 2.0

    def of(self, size: int) -> dict[str, float]:
        memory_mb = int(self.least_memory_mb + self.memory_per_byte * size / _MB)
        return {"memory_mb": memory_mb, "seconds": self.least_seconds + self.seconds_per_mb * size / _MB}


def pickled_conformers(
    paths: Sequence[Path], shapes: Sequence[Shape] = tuple(WORDS), *, limits: PickleLimits | None = None
) -> Iterator[HeavyConformer | OmittedConformer]:
    """The conformers of each file, in its order; FileFormatError, with the file's name, where one cannot be read or has
    none of these shapes. All files go to one process."""
    limits = limits or PickleLimits()
    sizes = [_size(path, limits) for path in paths]
    with _PickleProcess(limits.of(max(sizes, default=0))) as process:
        for path, size in zip(paths, sizes, strict=True):
            try:
                yield from process.read(path, size, shapes)
            except FileFormatError as error:
                raise FileFormatError(f"{shown(path.name)}: {error.what}", error.fix) from error


def _size(path: Path, limits: PickleLimits) -> int:
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size > limits.most_bytes:
        raise FileFormatError(
            f"{shown(path.name)} has {size / _MB:,.0f} MB, the limit is {limits.most_bytes / _MB:,.0f}", "Split it"
        )
    return size


class _PickleProcess:
    def __init__(self, limits: dict[str, float]) -> None:
        self._limits = limits
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}  # no keys of an S3 store
        self._process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
            start_new_session=True,
        )
        self._waiting = bytearray()
        self._send(json.dumps(limits).encode("ascii") + b"\n")

    def __enter__(self) -> _PickleProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # unsent data in the buffer
                continue
        self._process.wait()

    def read(self, path: Path, size: int, shapes: Sequence[Shape]) -> Iterator[HeavyConformer | OmittedConformer]:
        self._send(json.dumps({"bytes": size}).encode("ascii") + b"\n")
        with open_file(path) as file:
            left = size
            while left:
                part = file.read(min(left, _CHUNK))
                if not part:
                    raise FileFormatError("it became shorter while it was read", "Try again")
                self._send(part)
                left -= len(part)
        shape = self._frame()[0].get("shape")
        if shape not in shapes:
            wanted = " or ".join(WORDS[one] for one in shapes)
            if shape not in tuple(WORDS):
                raise _odd()
            raise FileFormatError(f"it has {WORDS[shape]} in place of {wanted}", "`references add` takes it")
        for _ in range(_LEAST_ANSWERS + size):  # each takes a byte, unless one list stands in many places
            head, body = self._frame()
            if head.get("end") is True:
                return
            yield _checked(head, body, path.name)
        raise FileFormatError("it has more conformers than bytes", "Do not trust this file")

    def _send(self, content: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error

    def _frame(self) -> tuple[dict[str, Any], bytes]:
        """The next of its answers; FileFormatError for what it says is wrong with the file."""
        while (end := self._waiting.find(b"\n")) < 0:
            if len(self._waiting) > _MOST_HEAD:
                raise _odd()
            self._receive()
        head = _object(self._take(end + 1))
        if "what" in head:
            raise FileFormatError(str(head["what"]), str(head.get("fix", "")))
        size = head.get("bytes")
        if type(size) is not int or not 0 <= size <= _MOST_BODY:
            raise _odd()
        while len(self._waiting) < size:
            self._receive()
        return head, self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._waiting[:size])
        del self._waiting[:size]
        return taken

    def _receive(self) -> None:
        assert self._process.stdout is not None
        number, answers = self._process.stdout.fileno(), select.poll()
        answers.register(number, select.POLLIN)
        if not answers.poll(2_000 * self._limits["seconds"]):  # twice as long: others may compute beside it
            raise self._too_slow()
        part = os.read(number, _CHUNK)
        if not part:
            raise self._ended()
        self._waiting += part

    def _ended(self) -> FileFormatError:
        code = self._process.wait()
        if code == -signal.SIGPROF:
            return self._too_slow()
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return FileFormatError(f"the process that reads it ended with {how}", "The file may be damaged, or hostile")

    def _too_slow(self) -> FileFormatError:
        return FileFormatError(f"it takes over {self._limits['seconds']:,.0f} s to read", "Split it")


def _object(line: bytes) -> dict[str, Any]:
    try:
        head = parsed_json(line)
    except ValueError as error:
        raise _odd() from error
    if not isinstance(head, dict):
        raise _odd()
    return head


def _checked(head: dict[str, Any], body: bytes, name: str) -> HeavyConformer | OmittedConformer:
    key, number, weight = head.get("key"), head.get("number"), head.get("weight")
    smiles, problem = head.get("smiles", ""), head.get("problem", "")
    texts_fit = all(isinstance(text, str) and len(text) <= MOST_CHARACTERS for text in (key, smiles, problem))
    weight_fits = weight is None or (isinstance(weight, int | float) and math.isfinite(weight))
    if not texts_fit or type(number) is not int or not weight_fits or len(body) % 24:
        raise _odd()
    key = str(key).encode("utf-8", "replace").decode("utf-8")  # half a character is none
    source = f"conformer {number + 1} of {shown(key, 120)} in {name}" if key else f"conformer {number + 1} of {name}"
    if problem or not smiles:
        return OmittedConformer(source, key, one_line(problem))
    xyz = np.frombuffer(body, dtype="<f8").reshape(-1, 3)
    return HeavyConformer(smiles, xyz, source, key, weight)


def _odd() -> FileFormatError:
    return FileFormatError("the process that reads it answered with what is no answer", "Do not trust this file")
