"""An unpickler for pickles of molecules alone. It runs in the sandbox, closed, and nowhere else.

A pickle is a program: it names anything that Python can import, and calls it. Here a name is looked up in ``MAKERS``
by the exact pair of module and name, and what is there is a stand-in of ours, never what the name means: a
molecule stays the bytes that RDKit would read, numpy's numbers become Python's. Any other name ends the reading before
anything is called, and so does what else could bring objects in (extension codes, persistent ids).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from engine.errors import FileError, shown

MOST_MOL_BYTES = 16 * 2**20
NUMBERS = frozenset("f8 f4 f2 b1 i1 u1 i2 u2 i4 u4 i8 u8".split())
"""Types of numpy that are read; others, such as its texts, are nothing that is asked for."""


class _Dropped:
    """Stands for a numpy array, in which nothing is that is asked for."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        """Dropped."""


class PickledMol(_Dropped):
    """A molecule as its pickle has it, not read yet. Properties that Python code hung on it are dropped."""

    __slots__ = ("content",)

    def __init__(self, content: object) -> None:
        if type(content) is not bytes:
            raise TypeError(f"a molecule is made of bytes, not of a {type(content).__name__}")
        if len(content) > MOST_MOL_BYTES:
            raise ValueError(f"a molecule has {len(content):,} bytes")
        self.content = content


class _Type:
    """numpy's, as far as plain numbers need it: a type and the order of its bytes."""

    __slots__ = ("code", "order")

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = code, "<"

    def __setstate__(self, state: object) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] == ">":
            self.order = ">"

    def number(self, content: Any) -> object:
        is_known = isinstance(self.code, str) and self.code in NUMBERS and type(content) is bytes
        kind: Any = f"{self.order}{self.code}"
        return np.frombuffer(content, kind)[0].item() if is_known else None


class _Maker:
    """A function that a pickle may call and cannot change."""

    __slots__ = ("_make",)
    _make: Callable[..., object]

    def __init__(self, make: Callable[..., object]) -> None:
        object.__setattr__(self, "_make", make)

    def __call__(self, *arguments: object) -> object:
        return self._make(*arguments)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} cannot be set")


MAKERS: dict[tuple[str, str], _Maker] = {
    ("rdkit.Chem.rdchem", "Mol"): _Maker(PickledMol),
    ("collections", "OrderedDict"): _Maker(lambda content=(): dict(content)),
    ("collections", "Counter"): _Maker(lambda content=(): dict(content)),
    ("numpy", "dtype"): _Maker(_Type),
    ("numpy", "ndarray"): _Maker(lambda *_: _Dropped()),
    ("_codecs", "encode"): _Maker(lambda text, _: str.encode(text, "latin1")),  # bytes, by protocols 0 to 2
}
for _core in ("numpy.core", "numpy._core"):
    MAKERS[f"{_core}.multiarray", "scalar"] = _Maker(lambda kind, content=None: _Type.number(kind, content))
    MAKERS[f"{_core}.multiarray", "_reconstruct"] = MAKERS["numpy", "ndarray"]
    MAKERS[f"{_core}.numeric", "_frombuffer"] = MAKERS["numpy", "ndarray"]


class MoleculeUnpickler(pickle.Unpickler):
    """``load`` gives plain containers, numbers, texts and ``PickledMol``; FileError for a name that is none."""

    def find_class(self, module: str, name: str) -> _Maker:
        maker = MAKERS.get((module, name))
        if maker is None:
            problem = f"it names {shown(f'{module}.{name}', 120)}, which no file of molecules needs"
            raise FileError(f"{problem}: it was not called, and nothing was read in", "Do not trust this file")
        return maker

    def persistent_load(self, pid: object) -> NoReturn:
        raise FileError("it refers to objects outside of it", "Write it again, with pickle.dump alone")


def load(content: bytes) -> Any:
    """What a pickle holds; FileError says why not. A MemoryError is the caller's."""
    source = io.BufferedReader(io.BytesIO(content))
    try:
        document = MoleculeUnpickler(source).load()
    except (
        *(pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, TypeError, ValueError),
        *(OverflowError, RecursionError),
    ) as error:  # what a pickle raises that nobody wrote as one
        if isinstance(error, EOFError) or "truncated" in str(error):
            raise FileError("it is cut short: the pickle ends too early", "Copy or write it again") from error
        problem = f"it is no pickle that can be read: {str(error).rstrip('.')}"
        raise FileError(problem, "Write it again") from error
    if source.read(1):
        raise FileError("there is more behind the pickle's end", "Give a file with one pickle")
    return document
