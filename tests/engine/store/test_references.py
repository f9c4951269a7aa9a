"""Reference sets: written whole or not at all, and read by molecule."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chem.conformer_files import HeavyConformer, omitted
from engine.errors import FileError, RunError, StoreError
from engine.store.files import Files
from engine.store.references import omissions, reference_set, write_references
from engine.store.schema import REFERENCES
from engine.store.staging import Staging
from engine.store.store import Store, damaged_parts

XYZ = np.array([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0], [2.0, 1.25, 0.5]])


def conformer(number: int, smiles: str = "CCO", **more: Any) -> HeavyConformer:
    return HeavyConformer(smiles, XYZ + number, f"record {number}", **more)


CONFORMERS: list[HeavyConformer] = [
    conformer(1),
    conformer(2, "CCN", key="NCC"),
    conformer(3, "OCC"),  # another SMILES of the first
    conformer(1),  # again
    conformer(4, "CCC", key="CCO"),
    omitted("record 5", "C1", "it cannot be read"),
]


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store(Files(tmp_path / "store"))


def write(store: Store, conformers: Any = tuple(CONFORMERS), label: str = "mine", form: str = "sdf") -> Any:
    return write_references(store, conformers, label=label, form=form, source="a.sdf")


def test_a_set_is_read_by_molecule(empty: Store) -> None:
    entry = write(empty)
    references = reference_set(empty, "mine")
    assert (references.name, references.molecule_count) == ("mine", 2)
    assert references.molecules() == ["CCO", "CCN"]
    mol = references.conformers("CCO")
    assert mol is not None and mol.GetNumConformers() == 2 and mol.GetNumHeavyAtoms() == mol.GetNumAtoms() == 3
    first, second = (conf.GetPositions() for conf in mol.GetConformers())
    assert np.array_equal(first, XYZ + 1) and np.array_equal(second, (XYZ + 3)[::-1])  # in the order of CCO
    assert references.conformers("C(O)C").GetNumConformers() == 2  # type: ignore[union-attr]
    assert references.conformers("CCCC") is None and references.conformers("C1") is None
    assert (entry.row["repeated"], entry.row["left_out"]) == (1, 2)
    assert empty.listing(REFERENCES).damages == () and damaged_parts(entry) == []
    path = Path(entry.path("reference_conformers"))
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(StoreError, match="the conformers of mine are damaged"):
        reference_set(empty, "mine").molecules()


def test_what_is_left_out_is_named(empty: Store) -> None:
    rows = omissions(empty, write(empty))
    assert [(row["source"], row["key"]) for row in rows] == [("record 4", "CCO"), ("record 5", "C1")]
    with pytest.raises(StoreError, match=r"there is no set of references 'drugs'\. Known are mine"):
        reference_set(empty, "drugs")
    assert rows[0]["reason"] == "its graph is 'CCC', which is not its key's 'CCO'"


def test_the_content_is_that_of_the_conformers_whatever_their_order(empty: Store) -> None:
    first = write(empty).row["content"]
    assert write(empty, CONFORMERS[::-1], "reversed").row["content"] == first
    assert write(empty, CONFORMERS[1:], "fewer", form="etkdg").row["content"] == first
    assert write(empty, CONFORMERS[2:], "fewest").row["content"] != first


def test_the_label_becomes_the_name(empty: Store) -> None:
    entry = write(empty, label="GEOM drugs / test")
    assert (entry.id, reference_set(empty, "GEOM drugs / test").name) == ("GEOM-drugs-test", "GEOM-drugs-test")
    for label, error in (("GEOM-drugs-test", "there is an entry .* already"), (" ../ ", "is no label for references")):
        with pytest.raises(StoreError, match=error):
            write(empty, label=label)


def test_nothing_is_left_of_a_reading_that_fails(empty: Store) -> None:
    def failing() -> Iterator[HeavyConformer]:
        yield conformer(1)
        raise FileError("record 2 is damaged")

    with pytest.raises(FileError, match="record 2 is damaged"):
        write(empty, failing())
    with pytest.raises(FileError, match=r"'a\.sdf' has no conformer that can be used: record 5: it cannot be read"):
        write(empty, CONFORMERS[-1:])
    assert empty.listing(REFERENCES).entries == () and empty.home.folders("staging") == []


def test_of_two_that_add_one_name_at_once_the_second_is_told_so(empty: Store, tmp_path: Path) -> None:
    """It was told that nothing is left to do, though its own conformers were not stored."""
    other = Store(Files(tmp_path / "other"))
    write(other)

    def overtaken() -> Iterator[Any]:
        yield from CONFORMERS
        shutil.copytree(other.home.path("references"), empty.home.path("references"))

    with pytest.raises(StoreError, match="mine is there already"):
        write(empty, overtaken())
    shutil.rmtree(empty.home.path("references"))
    writer = Staging.create(empty.home, REFERENCES, "mine", {})
    writer.lock()
    with pytest.raises(RunError, match="mine is being written by another process"):
        write(empty)
    writer.abandon()
