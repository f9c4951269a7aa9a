"""The unpickler: what it takes, and that nothing that it does not take is ever called."""

from __future__ import annotations

import os
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chem.molecule_unpickler import MAKERS, PickledMol, load
from engine.errors import FileError
from tests.engine.chem.pickles import Planted, calling, conformers

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_containers_numbers_and_molecules_are_read(protocol: int) -> None:
    (mol,) = conformers("CCO", 1)
    plain: dict[str, Any] = {"a": [1, 2.5, None, True, "é"], "b": (b"\x00\xff", {"c": []})}
    ours = load(pickle.dumps(plain, protocol))
    assert ours == plain
    numbers = [np.float64(0.1), np.int64(-3), np.bool_(True), np.dtype(">f8").type(2), np.float32(0.5), np.str_("x")]
    assert load(pickle.dumps(numbers, protocol)) == [0.1, -3, True, 2.0, 0.5, None]
    counted = load(pickle.dumps(OrderedDict(counts=Counter("aab")), protocol))
    assert counted == {"counts": {"a": 2, "b": 1}} and type(counted) is dict
    pickled = load(pickle.dumps([mol, np.arange(3), np.array([None])], protocol))[0]
    assert isinstance(pickled, PickledMol) and pickled.content == mol.ToBinary()


def test_what_it_makes_is_never_what_a_name_means() -> None:
    for (module, name), maker in MAKERS.items():
        assert type(maker).__module__ == "engine.chem.molecule_unpickler", (module, name)
        with pytest.raises(AttributeError):
            maker._make = os.system


def test_older_numpy_is_read_as_the_newer() -> None:
    content = pickle.dumps(np.float64(0.5), 2)
    assert b"numpy._core." in content
    assert load(content.replace(b"numpy._core.", b"numpy.core.")) == 0.5


# --- hostile ones ---------------------------------------------------------------------------------------------------


def touch(marker: Path) -> str:
    return f"open({str(marker)!r}, 'w').close()"


ATTACKS: dict[str, Callable[[Path], Any]] = {
    "os.system": lambda marker: Planted(os.system, f"touch {marker}"),
    "eval": lambda marker: Planted(eval, touch(marker)),
    "an object": lambda marker: Path(marker),
    "among molecules": lambda marker: {"CCO": [*conformers("CCO", 1), Planted(os.system, f"touch {marker}")]},
    "nested": lambda marker: Planted(Counter, Planted(OrderedDict, Planted(eval, touch(marker)))),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("attack", ATTACKS, ids=list(ATTACKS))
def test_nothing_planted_is_called(tmp_path: Path, attack: str, protocol: int) -> None:
    marker = tmp_path / "marker"
    content = pickle.dumps(ATTACKS[attack](marker), protocol)
    with pytest.raises(FileError, match=r"it names '.*', which no file of molecules needs: it was not called"):
        load(content)
    assert not marker.exists()
    if attack in ("os.system", "eval", "among molecules"):  # a reader that is not careful calls it
        pickle.loads(content)
        assert marker.exists()


@pytest.mark.parametrize("is_stacked", [False, True], ids=["GLOBAL", "STACK_GLOBAL"])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("collections", "abc.sys.modules"),
        ("rdkit.Chem.rdchem", "Mol.__class__"),
        ("builtins", "dict"),
        ("copyreg", "__newobj__"),
        ("engine.chem.molecule_unpickler", "load"),
    ],
)
def test_names_are_compared_as_pairs(module: str, name: str, is_stacked: bool) -> None:
    with pytest.raises(FileError, match="which no file of molecules needs"):
        load(calling(module, name, "x", is_stacked=is_stacked))


HOLLOW = [
    (b"c__builtin__\ngetattr\n(cos\nsystem\nV__call__\ntR.", "it names '__builtin__.getattr'|it names 'os.system'"),
    (b"\x80\x04", "cut short"),
    (b"no pickle at all", "no pickle that can be read"),
    (pickle.dumps(1) + pickle.dumps(2), "there is more behind the pickle's end"),
    (b"P1\n.", "it refers to objects outside of it"),
    (calling("rdkit.Chem.rdchem", "Mol", "text"), "a molecule is made of bytes, not of a str"),
    (b"ccollections\nCounter\n(N}X\x05\x00\x00\x00_makecos\nsystem\nstb.", "it names 'os.system'"),
    (b"ccollections\nCounter\n(N}X\x05\x00\x00\x00_makeK\x01stb.", "_make cannot be set"),
    (b"(ios\nsystem\n.", "it names 'os.system'"),  # INST
]


@pytest.mark.parametrize(("content", "error"), HOLLOW)
def test_what_is_no_pickle_of_molecules_is_one_error(content: bytes, error: str) -> None:
    with pytest.raises(FileError, match=error):
        load(content)


def test_a_damaged_byte_is_an_error_or_another_value() -> None:
    content = pickle.dumps({"CCO": [np.float64(1), Counter("ab"), "x" * 40, [1, 2, 3] * 20]}, 4)
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 0x55
        with suppress(FileError, MemoryError):
            load(bytes(damaged))
