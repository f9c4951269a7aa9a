"""Parquet files of some kilobytes that would be gigabytes when read: refused by name, before anything is expanded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.chem.molecule_files import read_entries
from engine.chem.parquet_files import MOST_ROW_NUMBERS, MOST_TEXT_BYTES, parquet_columns
from engine.chem.reference_files import reference_source
from engine.errors import FileFormatError

READERS: dict[str, Callable[[Path], Iterator[object]]] = {
    "molecules": read_entries,
    "references": lambda path: reference_source(path).conformers(),
}


def repeated(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


def written(path: Path, smiles: object, xyz: object, **more: object) -> Path:
    pq.write_table(pa.table({"smiles": smiles, "xyz": xyz, **more}), path, compression="zstd")
    assert path.stat().st_size < 100_000
    return path


BOMBS = {
    "a long text": (lambda: repeated("C" * (MOST_TEXT_BYTES + 1), 9), f"has a text of {MOST_TEXT_BYTES + 1:,} bytes"),
    "a text that is repeated": (lambda: repeated("C" * 50_000, 3_000), "inflates to over 64 MB"),
    "rows without end": (lambda: repeated("C", 5_000_000), "inflates to over 64 MB"),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", READERS)
def test_texts_that_expand_are_refused(tmp_path: Path, reader: str, bomb: str) -> None:
    smiles, told = BOMBS[bomb]
    path = written(tmp_path / "a.parquet", column := smiles(), repeated_numbers(len(column)))
    with pytest.raises(FileFormatError, match=rf"^'a\.parquet' {told}"):
        for _ in READERS[reader](path):
            pass


def repeated_numbers(rows: int, each: int = 1) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array([0.0] * rows * each), each)


def test_numbers_that_expand_are_refused(tmp_path: Path) -> None:
    for rows, each, told in (
        (1, MOST_ROW_NUMBERS + 1, rf"has {MOST_ROW_NUMBERS + 1:,} numbers in 1 rows\. Give at most"),
        (100, MOST_ROW_NUMBERS, "inflates to over 64 MB"),
    ):
        path = written(tmp_path / "a.parquet", ["C"] * rows, repeated_numbers(rows, each))
        with pytest.raises(FileFormatError, match=told):
            next(reference_source(path).conformers())


def test_columns_of_another_kind_are_refused_or_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", ["C"], [[0.0] * 3], weight=repeated("0" * 10**6, 1), name=[["C"]])
    (conformer,) = reference_source(path).conformers()
    (entry,) = read_entries(path)
    assert getattr(conformer, "weight", 0) is None and getattr(entry, "name", None) == ""
    for smiles, xyz, told in ((["C"], ["0 0 0"], "column xyz of .* is string"), ([["C"]], [[0.0]], "column smiles of")):
        with pytest.raises(FileFormatError, match=told):
            next(reference_source(written(path, smiles, xyz)).conformers())


def test_texts_of_every_kind_read_as_they_are(tmp_path: Path) -> None:
    texts = ["CC", None, "é", "CC"] * 3
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"a.b": pa.array(texts, kind), "n": range(12)}), path, row_group_size=5)
        batches = list(parquet_columns(path, ["a.b", "n"], 2))
        assert [text for batch in batches for text in batch["a.b"]] == texts
        assert [number for batch in batches for number in batch["n"]] == [*range(12)]
        assert max(len(batch["n"]) for batch in batches) == 2


@pytest.mark.parametrize("reader", READERS)
def test_all_row_groups_are_looked_at_before_the_first_is_read(tmp_path: Path, reader: str) -> None:
    """50 million nulls took 23 s until enough of them were read."""
    path = tmp_path / "a.parquet"
    empty = pa.table({"smiles": pa.nulls(5_000_000, pa.string()), "xyz": pa.nulls(5_000_000, pa.list_(pa.float64()))})
    pq.write_table(empty, path, row_group_size=500_000)
    with pytest.raises(FileFormatError, match="inflates to over 64 MB"):
        next(READERS[reader](path))


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.duration("s"), pa.date32()], ids=str)
@pytest.mark.parametrize("column", ["xyz", "weight", "name"])
def test_dates_and_times_are_no_numbers(tmp_path: Path, column: str, kind: pa.DataType) -> None:
    """Python's have a smaller range: reading one beyond it ended in a traceback."""
    late = 2**31 - 5 if kind == pa.date32() else 2**62
    cell = pa.array([[late] * 6], pa.list_(kind)) if column == "xyz" else pa.array([late], kind)
    path = written(tmp_path / "one.parquet", pa.array(["CO"]), **{"xyz": pa.array([[0.0] * 6]), column: cell})
    for read in READERS.values():
        with suppress(FileFormatError):
            list(read(path))
