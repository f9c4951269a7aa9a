"""Pickles read in a process of their own: the three shapes, what is refused, and what that process can do."""

from __future__ import annotations

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
from tests.engine.chem.pickles import conformers, generations, geom, references, write


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
    ({1: []}, "its keys are not SMILES: one is '1'"),
    ({"CCO": "text"}, "at 'CCO' it has something else in place of molecules"),
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


# --- bombs ----------------------------------------------------------------------------------------------------------

SMALL = Limits(20.0, is_cpu=True, memory_mb=150, is_closed=True)


def doubled(times: int) -> bytes:
    """A dict whose copies are kept: each REDUCE makes another one of the largest."""
    entries = b"".join(b"J" + number.to_bytes(4, "little") + b"N" for number in range(50_000))
    head = b"\x80\x04(" + b"d" + b"(" + entries + b"uq\x00]q\x01("
    return head + b"ccollections\nCounter\nq\x02(h\x00tR" + b"h\x02(h\x00tR" * times + b"e."


BOMBS = [
    (b"\x80\x04Nr\xff\xff\xff\x7f.", "takes over .* of memory"),  # a memo
    (b"\x80\x04\x8e" + (2**45).to_bytes(8, "little") + b"x.", "takes over .* of memory|cut short"),
    (doubled(2_000), "takes over .* of memory"),
    (b"\x80\x04}" + b")" + b"\x85" * 300_000 + b"Ns.", "its process ended .signal 11|no pickle"),  # nested keys
]


@pytest.mark.parametrize(("content", "error"), BOMBS, ids=["memo", "bytes", "copies", "nested keys"])
def test_a_bomb_is_one_error(tmp_path: Path, content: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "limits_of", lambda size: SMALL)
    path = tmp_path / "a.pickle"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"'a\.pickle': .*({error})"):
        read(path)


def test_a_file_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 10)
    with pytest.raises(FileFormatError, match="over 0 MB"):
        read(write(tmp_path / "a.pickle", references()))
