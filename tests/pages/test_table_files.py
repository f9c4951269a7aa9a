"""Tables as files and in a browser: odd types, and cells that a spreadsheet would compute."""

from __future__ import annotations

import csv
import datetime
import decimal
import io

import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pages._compare.sql import of_browsers
from pages._shared.table_files import csv_of, parquet_of

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


def test_types_that_browsers_do_not_know_are_shown_as_text() -> None:
    first, second = pa.table({name: of_browsers(ODD[name]) for name in ODD.column_names}).to_pylist()
    texts = {"deep": "[[1], null]", "struct": '{"a": 1, "b": [1.5]}', "map": '{"k": 1}', "bytes": "ff00"}
    numbers = {"price": 1.5, "huge": 2.0**100, "time": "01:02:00", "day": datetime.date(2026, 1, 2)}
    assert first == {"list": ["a b", None], "kind": "x"} | texts | numbers
    assert set(second.values()) == {None}


def test_files_of_a_table() -> None:
    rows = pyarrow.csv.read_csv(io.BytesIO(csv_of(ODD))).to_pylist()
    assert (rows[0]["list"], rows[0]["deep"], rows[0]["bytes"]) == ("a b ?", "[[1], null]", "ff00")
    assert pq.read_table(io.BytesIO(parquet_of(ODD))).equals(ODD)


FORMULAS = ["=1+1", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\x00=1", "\uff1d1+1", "-a", "- 1"]
NUMBERS = ["-1.5", "+2", "1e-9", "-1,234.5", "-3.5 %", "-1.0 2 -3", "C", "a=b", "", None]


def computed(text: str) -> bool:
    """Whether a spreadsheet takes a cell for a formula: by its first character, unless it is a number."""
    try:
        float(text.replace(",", "").removesuffix("%").split(" ")[0])
    except ValueError:
        return text[:1] in tuple("=+-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20")
    return False


@pytest.mark.parametrize("kind", ["string", "large", "view", "dictionary"])
def test_no_cell_of_a_file_is_a_formula_and_numbers_stay_numbers(kind: str) -> None:
    texts = FORMULAS + NUMBERS
    plain = pa.array(texts, pa.string())
    columns = {"string": plain, "large": plain.cast(pa.large_string()), "view": plain.cast(pa.string_view())}
    columns["dictionary"] = plain.dictionary_encode()
    table = pa.table({"=name": columns[kind], "+n": [-1.5] * len(texts), "list": [[text] for text in texts]})
    head, *read = csv.reader(io.StringIO(csv_of(table).decode(), newline=""))
    assert head[:2] == ["'=name", "'+n"]
    assert [cell for row in read for cell in row if computed(cell)] == []
    assert [row[0] for row in read] == ["'" + text.replace("\r", "\n") for text in FORMULAS] + [
        text or "" for text in NUMBERS
    ]
    assert {row[1] for row in read} == {"-1.5"}
    assert pandas.read_csv(io.BytesIO(csv_of(table)))["'+n"].tolist() == [-1.5] * len(texts)
