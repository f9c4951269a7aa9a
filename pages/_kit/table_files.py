"""Downloads, and a table as a file; files are made when they are asked for."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import streamlit as st

from engine.store.columns import json_values

TYPES = {
    "csv": "text/csv",
    "gz": "application/gzip",
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "parquet": "application/vnd.apache.parquet",
    "sdf": "chemical/x-mdl-sdfile",
}


_FORMULA = re.compile(r"[=+\-@\uff1d\uff0b\uff0d\uff20\x00-\x1f\x7f]")
"""What a spreadsheet reads as the start of a formula."""
_NUMBER = re.compile(r"(?:[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?: ?%)?(?: (?!$)|$))+", re.IGNORECASE)

ROW_PX, BORDERS_PX = 35, 2
"""Of ``st.dataframe``; its header is as high as a row."""


def table_buttons(table: Callable[[], pa.Table] | pa.Table, name: str, *, key: str, subject: str) -> None:
    """CSV and Parquet of a table, or of what makes one when a file is asked for."""
    for word, make, form in (("CSV", csv_of, "text"), ("Parquet", parquet_of, "a typed table")):
        ending = word.lower()
        file_button(
            word, partial(_made, make, table), f"{name}.{ending}", key=f"{key}_{ending}", help=f"{subject} as {form}"
        )


def file_button(word: str, make: Callable[[], str | bytes], name: str, **more: Any) -> None:
    """A file that is made when a reader asks for it; the page is not drawn again. Its name's ending gives its type."""
    kind = TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    look = {"icon": ":material/download:", "on_click": "ignore", "type": "tertiary"}
    st.download_button(word, make, name, kind, **look | more)


def _made(make: Callable[[pa.Table], bytes], table: Callable[[], pa.Table] | pa.Table) -> bytes:
    return make(table() if callable(table) else table)


def csv_of(table: pa.Table) -> bytes:
    """Lists become texts, since CSV has none; what is nested deeper becomes JSON, and bytes hexadecimal digits."""
    columns = []
    for column in table.columns:
        texts = _texts(column, column.type)
        columns.append(column if texts is None else pa.array(map(safe_cell, texts), pa.string()))
    flat = pa.table(columns, [safe_cell(name) for name in table.column_names])
    file = io.BytesIO()
    pyarrow.csv.write_csv(flat, file)
    return file.getvalue()


def safe_cell(cell: Any) -> Any:
    """The cell, with an apostrophe before a text that a spreadsheet would compute."""
    if not isinstance(cell, str):
        return cell
    mark = "'" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else ""
    return mark + cell.replace("\r\n", "\n").replace("\r", "\n")  # a lone one ends a row, and is not quoted


def parquet_of(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def json_texts(column: pa.ChunkedArray) -> Iterator[str | None]:
    """Each value as JSON."""
    return (None if value is None else json.dumps(value, ensure_ascii=False) for value in json_values(column))


def _joined(items: Iterable[object]) -> str:
    return " ".join("?" if item is None else str(item) for item in items)


def _texts(column: pa.ChunkedArray, kind: pa.DataType) -> Iterable[str | None] | None:
    """What CSV has instead of this type; None where it takes the type as it is."""
    values = (value for part in column.iterchunks() for value in part.to_pylist())
    if pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        return (None if row is None else _joined(row) for row in values)
    if pa.types.is_nested(kind):
        return json_texts(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return (None if value is None else value.hex() for value in values)
    if pa.types.is_dictionary(kind):
        return _texts(column.cast(kind.value_type), kind.value_type)
    return values if kind in (pa.string(), pa.large_string(), pa.string_view()) else None


def table_height(rows: int, most_px: int | None = None) -> int:
    """Of a table that shows all of its rows, or scrolls at ``most_px``; without a row, it has a line that says so."""
    height = ROW_PX * (max(rows, 1) + 1) + BORDERS_PX
    return height if most_px is None else min(height, most_px)
