"""An unpickler for pickles of molecules alone. It runs in the sandbox, closed, and nowhere else.

A pickle is a program: it names anything that Python can import, and calls it. Here a name is looked up in ``MAKERS``
by the exact pair of module and name, and what stands there is a stand-in of ours, never what the name means: a
molecule stays the bytes that RDKit would read, numpy's numbers become Python's. Any other name ends the reading before
anything is called, and so does what else could bring objects in (extension codes, persistent ids).
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from engine.errors import FileFormatError, shown

MOST_MOL_BYTES = 16 * 2**20
_NUMBERS = {
    "f8": "d", "f4": "f", "f2": "e", "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I",
    "i8": "q", "u8": "Q",
}  # fmt: skip
"""Types of numpy by those of ``struct``."""
DAMAGED = (
    *(pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, TypeError),
    *(ValueError, OverflowError, RecursionError, struct.error),
)
"""What reading a pickle that nobody wrote as one raises."""


class PickledMol:
    """A molecule as its pickle has it, not read yet."""

    __slots__ = ("content",)

    def __init__(self, content: object) -> None:
        if type(content) is not bytes:
            raise TypeError(f"a molecule is made of bytes, not of a {type(content).__name__}")
        if len(content) > MOST_MOL_BYTES:
            raise ValueError(f"a molecule has {len(content):,} bytes")
        self.content = content

    def __setstate__(self, state: object) -> None:
        """Properties that Python code hung on it are dropped."""


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


class _DataType:
    """numpy's, as far as plain numbers need it: a type and the order of its bytes."""

    __slots__ = ("code", "order")

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = code, "<"

    def __setstate__(self, state: object) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|", "="):
            self.order = ">" if state[1] == ">" else "<"

    def number(self, content: object) -> object:
        form = _NUMBERS.get(self.code) if isinstance(self.code, str) else None
        if form is None or type(content) is not bytes:
            return None  # such as a text of numpy: nothing that is asked for
        return struct.unpack(self.order + form, content)[0]


class _Array:
    """numpy's. Nothing that is asked for is in one, so its content is dropped."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        """Dropped."""


def _scalar(type_: object, content: object = None) -> object:
    if not isinstance(type_, _DataType):
        raise TypeError("a number of numpy has no type")
    return type_.number(content)


def _mapping(content: object = ()) -> dict[Any, Any]:
    if not isinstance(content, dict | list | tuple):
        raise TypeError(f"a mapping cannot be made of a {type(content).__name__}")
    return dict(content)


def _bytes_of(text: object, coding: object) -> bytes:
    """How protocols 0 to 2 write bytes."""
    if not isinstance(text, str) or coding != "latin1":
        raise TypeError("bytes are not written as latin1")
    return text.encode("latin1")


MAKERS: dict[tuple[str, str], _Maker] = {
    ("rdkit.Chem.rdchem", "Mol"): _Maker(PickledMol),
    ("collections", "OrderedDict"): _Maker(_mapping),
    ("collections", "Counter"): _Maker(_mapping),
    ("numpy", "dtype"): _Maker(_DataType),
    ("numpy", "ndarray"): _Maker(lambda *_: _Array()),
    ("_codecs", "encode"): _Maker(_bytes_of),
    **{(f"numpy.{core}.multiarray", "scalar"): _Maker(_scalar) for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Maker(lambda *_: _Array()) for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Maker(lambda *_: _Array()) for core in ("core", "_core")},
}


class MoleculeUnpickler(pickle.Unpickler):
    """``load`` gives plain containers, numbers, texts and ``PickledMol``; FileFormatError for a name that is none."""

    def find_class(self, module: str, name: str) -> _Maker:
        maker = MAKERS.get((module, name))
        if maker is None:
            what = f"it names {shown(f'{module}.{name}', 120)}, which no file of molecules needs"
            raise FileFormatError(f"{what}: it was not called, and nothing was read in", "Do not trust this file")
        return maker

    def persistent_load(self, pid: object) -> NoReturn:
        raise FileFormatError("it refers to objects outside of it", "Write it again, with pickle.dump alone")


def load(content: bytes) -> Any:
    """What a pickle holds; FileFormatError says why not. A MemoryError is the caller's."""
    source = io.BufferedReader(io.BytesIO(content))
    try:
        document = MoleculeUnpickler(source).load()
    except DAMAGED as error:
        if isinstance(error, EOFError) or "truncated" in str(error):
            raise FileFormatError("it is cut short: the pickle ends too early", "Copy or write it again") from error
        what = f"it is no pickle that can be read: {str(error).rstrip('.')}"
        raise FileFormatError(what, "Write it again") from error
    if source.read(1):
        raise FileFormatError("there is more behind the pickle's end", "Give a file with one pickle")
    return document
