"""Whether the rows of a stored file are such as this program writes: the rules stand beside the columns.

A file whose size and checksum fit may still hold NaN for a time, a null for an id or a number twice. Every reader
would have to expect that; here it is one reason to leave the file out. Files are read in pieces, texts as places in a
list of different ones. What this module does not know: what columns mean, and what a damaged file is to a reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import shown
from engine.store.columns import Column, Table

PIECE_ROWS = 2**15
KEY_BITS = 31  # of the second column of a key, and those behind it


def misfit(schema: pa.Schema, table: Table) -> str:
    """Which column a file has twice, or of another type than its table; looked at before any value is."""
    if len(set(schema.names)) < len(schema.names):
        return "it has a column twice"
    types = dict(zip(schema.names, schema.types, strict=True))
    wrong = [(column, types[column.name]) for column in table if types.get(column.name, column.type) != column.type]
    return "".join(f"its {column.name} is {shown(kind, 60)} in place of {column.type}" for column, kind in wrong[:1])


def unsound(file: pq.ParquetFile, table: Table) -> str:
    """Which column breaks its rule, and how; empty where none does. ``file`` reads texts as dictionaries."""
    ruled = [column for column in table if column.name in file.schema_arrow.names and column.has_rule]
    keys: list[NDArray[np.int64]] = []
    columns = [column.name for column in ruled]
    # By group: pyarrow joins no lists of texts of two.
    groups = (file.iter_batches(PIECE_ROWS, [n], columns, use_threads=False) for n in range(file.num_row_groups))
    for batch in chain.from_iterable(groups) if columns else ():
        for column in ruled:
            if what := _broken_rule(batch.column(column.name), column):
                return f"its {column.name} {what}"
        if table.key and all(name in columns for name in table.key):
            keys.append(_key(batch, table))
    if keys and _has_twins(np.concatenate(keys)):
        return f"two of its rows have the same {' and '.join(table.key)}"
    return ""


def _broken_rule(values: pa.Array, column: Column) -> str:
    if column.required and values.null_count:
        return "is missing in a row"
    if pa.types.is_list(of := values.type) and not pa.types.is_primitive(of.value_type) and values.flatten().null_count:
        return "has an item without a value"
    for leaf in _leaves(values):
        if pa.types.is_dictionary(leaf.type):
            texts = leaf.dictionary.to_pylist()
            if column.required and not column.blank and "" in texts:
                return "is empty in a row"
            if column.words and not column.words.issuperset(texts):
                return "has a word that is none of its own"
        elif (pa.types.is_integer(leaf.type) or pa.types.is_floating(leaf.type)) and len(known := leaf.drop_null()):
            numbers = known.to_numpy(zero_copy_only=False)
            if not column.allows(numbers.min(), numbers.max()):
                return f"is no number from {column.least:.3g} to {column.most:.3g} in a row"
    return ""


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    """The arrays of plain values in lists and structs."""
    if pa.types.is_struct(values.type):
        for part in values.flatten():
            yield from _leaves(part)
    elif pa.types.is_nested(values.type):
        yield from _leaves(values.flatten())
    else:
        yield values


def _key(batch: pa.RecordBatch, table: Table) -> NDArray[np.int64]:
    """The columns of a key in one number; rows without one are left out."""
    first, *more = (batch.column(name) for name in table.key)
    key = first.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    for column in more:
        key = (key << KEY_BITS) + column.to_numpy(zero_copy_only=False)
    return np.asarray(key, dtype=np.int64)


def _has_twins(keys: NDArray[np.int64]) -> bool:
    if (np.diff(keys) > 0).all():  # as most files are
        return False
    keys.sort()
    return bool((np.diff(keys) == 0).any())
