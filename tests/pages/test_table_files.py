"""Tables as files and in a browser: odd types, and cells that a spreadsheet would compute."""

from __future__ import annotations

import csv
import datetime
import decimal
import io

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pages._compare.sql import of_browsers
from pages._kit.table_files import csv_of, parquet_of

ODD = pa.table(
    {
        "list": pa.array([["a b", None], None]),
        "deep": pa.array([[[1], None], None]),
        "struct": pa.array([{"a": 1, "b": [1.5]}, None]),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "bytes": pa.array([b"\xff\x00", None]),
        "price": pa.array([decimal.Decimal("1.50"), None]),
        "huge": pa.array([decimal.Decimal(2**100), None], pa.decimal128(38, 0)),
        "time": pa.array([datetime.time(1, 2), None]),
        "day": pa.array([datetime.date(2026, 1, 2), None]),
        "kind": pa.array(["x", None]).dictionary_encode(),
    }
)


def test_odd_types_are_text_in_a_browser_and_in_files() -> None:
    first, second = pa.table({name: of_browsers(ODD[name]) for name in ODD.column_names}).to_pylist()
    texts = {"deep": "[[1], null]", "struct": '{"a": 1, "b": [1.5]}', "map": '{"k": 1}', "bytes": "ff00"}
    numbers = {"price": 1.5, "huge": 2.0**100, "time": "01:02:00", "day": datetime.date(2026, 1, 2)}
    assert first == {"list": ["a b", None], "kind": "x"} | texts | numbers
    assert set(second.values()) == {None}
    rows = pyarrow.csv.read_csv(io.BytesIO(csv_of(ODD))).to_pylist()
    assert (rows[0]["list"], rows[0]["deep"], rows[0]["bytes"]) == ("a b ?", "[[1], null]", "ff00")
    assert pq.read_table(io.BytesIO(parquet_of(ODD))).equals(ODD)


FORMULAS = ["=1+1", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\x00=1", "\uff1d1+1", "-a", "- 1"]
NUMBERS = ["-1.5", "+2", "1e-9", "-1,234.5", "-3.5 %", "-1.0 2 -3", "C", "a=b", "", None]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_no_cell_of_a_file_is_a_formula_and_numbers_stay_numbers(kind: pa.DataType) -> None:
    texts = FORMULAS + NUMBERS
    plain = pa.array(texts, pa.string())
    column = plain.dictionary_encode() if kind == "dictionary" else plain.cast(kind)
    table = pa.table({"=name": column, "+n": [-1.5] * len(texts), "list": [[text] for text in texts]})
    head, *read = csv.reader(io.StringIO(csv_of(table).decode(), newline=""))
    assert head[:2] == ["'=name", "'+n"] and {row[1] for row in read} == {"-1.5"}
    cells = [*("'" + text.replace("\r", "\n") for text in FORMULAS), *(text or "" for text in NUMBERS)]
    assert [row[0] for row in read] == cells
    assert all(row[2].startswith("'") for row in read[: len(FORMULAS)]), "lists too"
