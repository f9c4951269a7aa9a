"""Files of a kilobyte that would be gigabytes: counted before they are read, and damage by name."""

from __future__ import annotations

import hashlib
import json
import re
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.store.inflated import problem_of
from engine.store.store import UNREADABLE, VARIABLE
from tests.cli import run
from tests.engine.store.stored_runs import folder_of, store_at, written


def test_a_text_that_a_file_has_once_counts_in_each_row(tmp_path: Path) -> None:
    long, path = ["x" * 20_000_000], tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), long)
    nested = pa.ListArray.from_arrays(pa.array(range(65), pa.int32()), texts)
    numbers = pa.array([1] * 70_000_000, pa.int8())
    for column, is_large in ((texts, True), (texts[:9], False), (nested, True), (numbers, True)):
        pq.write_table(pa.table({"a": column}), path, row_group_size=10**9)
        assert path.stat().st_size < 2_000_000
        tracemalloc.start()
        assert ("its rows would take over 512 MB" in problem_of(pa.OSFile(str(path)))) == is_large
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        tracemalloc.stop()


def test_a_footer_of_many_columns_is_not_read(tmp_path: Path) -> None:
    path, count = tmp_path / "wide.parquet", 90_000
    names = [f"{place:05}{50 * 'x'}" for place in range(count)]
    pq.write_table(pa.table([pa.array([], pa.int8())] * count, names), path)
    assert re.search(r"its footer has [\d,]+ bytes", problem_of(pa.OSFile(str(path))))


def forged(path: Path, column: str, **fields: int) -> None:
    """A footer that says other numbers of a column, written over the right ones in as many bytes."""
    content, file = path.read_bytes(), pq.ParquetFile(path)
    place = file.schema.names.index(column)
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    foot = content[start:]
    for name, value in fields.items():
        was = varint(2 * getattr(file.metadata.row_group(0).column(place), name))
        foot = foot.replace(was, varint(2 * value, len(was)))
    path.write_bytes(content[:start] + foot)
    changed = pq.ParquetFile(path).metadata.row_group(0).column(place)
    assert {name: getattr(changed, name) for name in fields} == fields


def varint(value: int, length: int = 1) -> bytes:
    parts = [value >> shift & 127 for shift in range(0, max(7 * length, value.bit_length()), 7)]
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])


def problem_in(path: Path) -> str:
    with pa.OSFile(str(path)) as file:
        return problem_of(file)


def test_a_footer_that_says_less_than_its_pages_hold_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bug: it was, and reading a file of some kilobytes took gigabytes."""
    monkeypatch.setattr("engine.store.inflated.MOST_GROUP_BYTES", 1_000_000)
    path = tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), ["x" * 200_000])
    pq.write_table(pa.table({"a": texts}), path)
    forged(path, "a", total_uncompressed_size=1_000)
    assert problem_in(path).startswith("its rows would take over")
    pq.write_table(pa.table({"a": pa.array([[1] * 20_000] * 20, pa.list_(pa.int8()))}), path)
    assert problem_in(path).startswith("its rows would take over")
    forged(path, "element", num_values=20)
    assert problem_in(path) == "its pages have 400,000 values where its footer says 20"
    pq.write_table(
        pa.table({"a": ["x" * 10_000] * 300}), path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"
    )
    forged(path, "a", num_values=299)
    assert problem_in(path) == "its pages have 300 values where its footer says 299"


def test_a_page_that_is_larger_than_its_values_counts_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of a row, in a page of as many bytes as it likes."""
    monkeypatch.setattr("engine.store.inflated.MOST_GROUP_BYTES", 20_000)
    monkeypatch.setattr("engine.store.inflated.MOST_RATIO", 0)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(1_000)}), path, use_dictionary=False, compression="none")
    assert problem_in(path) == ""
    packed = varint(2 * 8_007)  # the numbers, and how they are nested
    content = path.read_bytes().replace(b"\x15" + packed, b"\x15" + varint(2 * 60_000), 1)
    assert content.startswith(b"PAR1\x15\x00\x15" + varint(2 * 60_000) + b"\x15" + packed)
    path.write_bytes(content)
    assert problem_in(path).startswith("its rows would take over")


def test_pages_that_are_none_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(1000)}), path)
    content = path.read_bytes()
    nested, endless, cut, negative = b"\x1c" * 5_000, b"\xff" * 40, b"\x18\xff\xff\xff\x0f", b"\x15\x00\x15\x01\x00"
    for header in (nested, endless, cut, negative):
        path.write_bytes(content[:4] + header + content[4:])  # where the footer says that its first page is
        assert "header" in problem_in(path)


def test_such_a_file_is_damage_and_the_rest_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: `export` took 6 GB."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("engine.store.inflated.MOST_GROUP_BYTES", 1_000_000)
    store = store_at(tmp_path)
    for name in ("one", "other"):
        written(store.home, name)
    path = folder_of(store) / "samples.parquet"
    rows = pq.read_table(path)
    place = rows.column_names.index("text")
    texts = pa.array(["x" * 500_000] * rows.num_rows)
    pq.write_table(rows.set_column(place, rows.schema.field("text"), texts), path, compression="zstd")
    sheet = json.loads((folder_of(store) / "run.json").read_text())
    sum_ = hashlib.sha256(path.read_bytes()).hexdigest()
    sheet["tables"]["samples"] |= {"bytes": path.stat().st_size, "sha256": sum_}
    (folder_of(store) / "run.json").write_text(json.dumps(sheet))
    assert "samples.parquet: its rows would take over" in run("verify").out
    assert run("export", "one", str(tmp_path / "a.json")).error.startswith("driftscope: the samples of one are damaged")
    assert store.rows("SELECT DISTINCT run_id FROM samples") == [{"run_id": "other"}]
    assert [damage.where.rpartition("/")[2] for damage in store.found().damages] == ["samples.parquet"]


def test_a_damaged_file_is_a_named_error(tmp_path: Path) -> None:
    """The bug: pyarrow ends the process where the metadata of a column does not fit together."""
    numbers = pa.array([[number] * (number % 3) for number in range(300)])
    pq.write_table(pa.table({"run_id": ["x"] * 300, "a": numbers}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    problems = set()
    for place in range(len(content) - 1_200, len(content) - 8):
        changed = bytearray(content)
        changed[place] ^= 3
        try:
            problems.add(problem_of(pa.BufferReader(bytes(changed)), "runs/run_id=x"))
        except UNREADABLE as error:
            problems.add(type(error).__name__)
    assert {"", "OSError", "ArrowInvalid"} < problems
