"""Pickles read in a process of their own: the three shapes, what is refused, and what that process can do."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from engine.chem import conformer_files as reading
from engine.chem.conformer_files import HeavyConformer, molecules_of, pickled_conformers
from engine.errors import FileFormatError
from engine.sandbox import Limits
from tests.engine.chem.pickles import Planted, conformers, generations, geom, references, write
from tests.support import of_soak


def read(*paths: Path, **more: Any) -> list[HeavyConformer]:
    return list(pickled_conformers(paths, **more))


def test_each_shape_is_read_by_one_process(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "references.pickle", references((("CCO", 2),))),
        write(tmp_path / "generations.pkl", generations((("CCN", 2),)), 5),
        write(tmp_path / "geom.p", geom("CCC", 2), 2),
        write(tmp_path / "unnamed.p", geom("OCC", 1, is_named=False), 0),
    ]
    found = [item for item in read(*files) if not item.problem]
    assert [(item.key, item.smiles, item.weight) for item in found] == [
        *[("CCO", "CCO", None)] * 2,
        *[("CCN", "CCN", None)] * 2,
        ("CCC", "CCC", 0.75),
        ("CCC", "CCC", 0.25),
        ("", "CCO", 0.75),
    ]
    assert found[1].source == "conformer 2 of 'CCO' in references.pickle"
    expected = Chem.RemoveHs(conformers("CCO", 2)[1]).GetConformer().GetPositions()
    assert np.allclose(found[1].xyz, expected, atol=1e-5)  # a pickle of RDKit holds single precision


def test_a_molecule_that_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    flat = Chem.MolFromSmiles("CCO")
    content = pickle.dumps({"CCO": [flat, *conformers("CCO", 1), None]})
    path = tmp_path / "a.pickle"
    path.write_bytes(content)
    reasons = [item.problem for item in read(path)]
    assert reasons == ["it has no coordinates in 3D", "", "there is no molecule"]
    path.write_bytes(pickle.dumps({"CCO": [flat]}).replace(flat.ToBinary()[-20:], b"x" * 20))
    (broken,) = read(path)
    assert broken.problem.startswith("RDKit cannot read it")


MISSHAPEN: list[tuple[Any, str]] = [
    ([1, 2], "it is the pickle of a list"),
    ({}, "or empty"),
    ({1: []}, "its keys are not SMILES: one is '1'"),
    ({"C" * 5_000: []}, "its keys are not SMILES: one is 'CCC"),
    ({"CCO": "text"}, "at 'CCO' it has something else in place of molecules"),
    ({"CCO": {"confs": None}}, "at 'CCO' it has something else"),
    ({"CCO": [1]}, "at 'CCO' it has something else"),
    ({"CCO": [], "CCN": {"confs": []}}, r"at 'CCO' it has something else"),
    ({"conformers": [{"rd_mol": 5}]}, "it has something else in place of molecules"),
]


@pytest.mark.parametrize(("document", "error"), MISSHAPEN)
def test_what_is_of_no_known_shape(document: Any, error: str) -> None:
    with pytest.raises(FileFormatError, match=error):
        list(molecules_of(document, ("references", "molecules", "geom")))


def test_another_shape_than_was_asked_for_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pickle", references())
    with pytest.raises(FileFormatError, match=r"it has references .* in place of generations .*`references add` takes"):
        read(path, shapes=("molecules",))


def test_nothing_planted_runs_anywhere(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    document = {**references(), "evil": Planted(os.system, f"touch {marker}")}
    with pytest.raises(FileFormatError, match=r"it names 'posix\.system', which no file of molecules needs"):
        read(write(tmp_path / "a.pickle", document))
    assert not marker.exists()


def test_a_truncated_one_gives_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pickle", references())
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FileFormatError, match=r"'a\.pickle': it is cut short: the pickle ends too early"):
        next(pickled_conformers([path]))


# --- bombs ----------------------------------------------------------------------------------------------------------

SMALL = Limits(20.0, is_cpu=True, memory_mb=150, is_closed=True)


def doubled(times: int) -> bytes:
    """A dict whose copies are kept: each REDUCE makes another one of the largest."""
    entries = b"".join(b"J" + number.to_bytes(4, "little") + b"N" for number in range(50_000))
    head = b"\x80\x04(" + b"d" + b"(" + entries + b"uq\x00]q\x01("
    return head + b"ccollections\nCounter\nq\x02(h\x00tR" + b"h\x02(h\x00tR" * times + b"e."


BOMBS: dict[str, tuple[bytes, str]] = {
    "a frame": (b"\x80\x05\x95" + (2**62).to_bytes(8, "little") + b"N.", "takes over .* of memory|cut short"),
    "a memo": (b"\x80\x04Nr\xff\xff\xff\x7f.", "takes over .* of memory"),
    "bytes": (b"\x80\x04\x8e" + (2**45).to_bytes(8, "little") + b"x.", "takes over .* of memory|cut short"),
    "copies": (doubled(2_000), "takes over .* of memory"),
    "many references": (b"\x80\x04]q\x00(" + b"h\x00" * 1_000_000 + b"e.", "it is the pickle of a list"),
    "nested lists": (b"\x80\x04" + b"]" * 300_000 + b"a" * 299_999 + b".", "it is the pickle of a list"),
    "nested keys": (b"\x80\x04}" + b")" + b"\x85" * 300_000 + b"Ns.", "its process ended .signal 11|no pickle"),
}


@pytest.mark.parametrize("bomb", ["copies", "nested keys"])
def test_a_bomb_is_one_error(tmp_path: Path, bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    explode(tmp_path, bomb, monkeypatch)


@of_soak
@pytest.mark.parametrize("bomb", sorted(BOMBS.keys() - {"copies", "nested keys"}))
def test_the_other_bombs(tmp_path: Path, bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    explode(tmp_path, bomb, monkeypatch)


def explode(tmp_path: Path, bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "limits_of", lambda size: SMALL)
    content, error = BOMBS[bomb]
    path = tmp_path / "a.pickle"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"'a\.pickle': .*({error})"):
        read(path)


def test_one_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = b"".join(b"J" + number.to_bytes(4, "little") + b"N" for number in range(100_000))
    path = tmp_path / "a.pickle"  # copies that are dropped
    path.write_bytes(
        b"\x80\x04(d(" + entries + b"uq\x00" + b"ccollections\nCounter\nq\x02" + b"(h\x00tR0h\x02" * 10**4 + b"."
    )
    monkeypatch.setattr(reading, "limits_of", lambda size: Limits(0.5, is_cpu=True, is_closed=True))
    with pytest.raises(FileFormatError, match=r"it takes over 0\.5 s to read"):
        read(path)


def test_a_file_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 10)
    with pytest.raises(FileFormatError, match="over 0 MB"):
        read(write(tmp_path / "a.pickle", references()))
