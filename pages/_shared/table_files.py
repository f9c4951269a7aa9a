"""A table as a file for a download, made when it is asked for."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import streamlit as st

from engine.store.sql.rows import as_rows

CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"


def table_buttons(table: Callable[[], pa.Table] | pa.Table, name: str, *, key: str, what: str) -> None:
    """CSV and Parquet of a table, or of what makes one when a file is asked for."""
    for word, mime, make in (("CSV", CSV, csv_of), ("Parquet", PARQUET, parquet_of)):
        file_button(
            word,
            partial(_made, make, table),
            f"{name}.{word.lower()}",
            mime,
            key=f"{key}_{word.lower()}",
            help=f"{what} as {'text' if mime == CSV else 'a typed table'}",
        )


def file_button(
    word: str, make: Callable[[], str | bytes], name: str, mime: str = CSV, *, key: str, help: str | None = None
) -> None:
    """A file that is made when a reader asks for it; the page is not drawn again."""
    st.download_button(
        word, make, name, mime, key=key, icon=":material/download:", help=help, on_click="ignore", type="tertiary"
    )


def _made(make: Callable[[pa.Table], bytes], table: Callable[[], pa.Table] | pa.Table) -> bytes:
    return make(table() if callable(table) else table)


def csv_of(table: pa.Table) -> bytes:
    """Lists become texts, since CSV has none; what is nested deeper becomes JSON, and bytes hexadecimal digits."""
    flat = table
    for number, field in enumerate(table.schema):
        if (texts := _texts(table.column(number), field.type)) is not None:
            flat = flat.set_column(number, field.name, pa.array(texts, pa.string()))
    file = io.BytesIO()
    pyarrow.csv.write_csv(flat, file)
    return file.getvalue()


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows that are no table yet as CSV; quoting is the library's."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue()


def parquet_of(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def json_texts(column: pa.ChunkedArray) -> list[str | None]:
    """Each value as JSON."""
    rows = as_rows(pa.table({"value": column}))
    return [None if row["value"] is None else json.dumps(row["value"], ensure_ascii=False) for row in rows]


def _texts(column: pa.ChunkedArray, kind: pa.DataType) -> list[str | None] | None:
    """What CSV has instead of this type; None where it takes the type as it is."""
    if pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        return [None if row is None else " ".join("?" if one is None else str(one) for one in row)
                for row in column.to_pylist()]  # fmt: skip
    if pa.types.is_nested(kind):
        return json_texts(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if one is None else one.hex() for one in column.to_pylist()]
    return None
