"""Columns of Parquet files that users bring, batch by batch, bounded before anything is expanded.

A file of a kilobyte can repeat one text of megabytes in every row, or one number millions of times. So texts are read
as dictionaries, and what the pages say of their numbers is counted before they are read. What this module does not
know: what the columns mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, one_line, shown
from engine.parquet_pages import Pages, footer_bytes, groups_of
from engine.user_files import ReadLimit

MOST_TEXT_BYTES = 100_000
"""Of one cell: far more than any SMILES or name has."""
MOST_ROW_NUMBERS = 30_000
"""Of a list, on average over a row group: x, y, z of 10,000 atoms."""
NUMBER_BYTES = 32
"""What a number takes in a list of Python's."""
LEAST_ROW_BYTES = 16
"""What reading a row costs, however little it holds."""


def is_text(kind: Any) -> bool:
    """Of an Arrow type: text, or a dictionary of texts."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: Any) -> bool:
    import pyarrow as pa

    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(is_kind(kind) for is_kind in kinds)  # not dates and times, of which Python's have a smaller range


def is_numbers(kind: Any) -> bool:
    """A list of numbers, or a list of such lists."""
    import pyarrow as pa

    for _ in range(2):
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        kind = kind.value_type if is_list else kind
    return is_number(kind)


@contextmanager
def whole_parquet(path: Path) -> Iterator[None]:
    """What cannot be read is a FileFormatError with the file's name."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
        reason = one_line(str(error).partition("\n")[0])[:200]
        raise FileFormatError(f"{shown(path.name)} is no whole Parquet file: {reason}", "Write it again") from error


def schema_of(path: Path) -> Any:
    from pyarrow import parquet

    with whole_parquet(path), _opened(path) as source:
        footer_bytes(source)
        return parquet.ParquetFile(source).schema_arrow


def parquet_columns(path: Path, names: Sequence[str], rows: int) -> Iterator[dict[str, list[Any]]]:
    """The cells of some columns by name, of at most ``rows`` rows at once. They are texts, numbers or lists of numbers
    (`is_text`, `is_number`, `is_numbers`)."""
    from pyarrow import parquet

    limit = ReadLimit(path, is_timed=False)
    schema = schema_of(path)
    texts = [name for name in names if is_text(schema.field(schema.names.index(name)).type)]
    with whole_parquet(path), _opened(path) as source, parquet.ParquetFile(source, read_dictionary=texts) as file:
        places = [file.schema.column(number).path for number in range(file.metadata.num_columns)]
        for height, pages in groups_of(source):  # all of them before the first is read
            _check_group(path, height, dict(zip(places, pages, strict=True)), names, limit)
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(rows, row_groups=[group], columns=list(names)):
                columns = {name: batch.column(batch.schema.names.index(name)) for name in names}
                for name in texts:
                    columns[name] = _checked_texts(path, name, columns[name], limit)
                yield {name: column.to_pylist() for name, column in columns.items()}


def _opened(path: Path) -> Any:
    import pyarrow as pa

    return pa.OSFile(str(path))


def _check_group(path: Path, rows: int, columns: dict[str, Pages], names: Sequence[str], limit: ReadLimit) -> None:
    """Of what the pages of a row group say of themselves; nothing of them is read."""
    limit.add(LEAST_ROW_BYTES * rows)
    for place, pages in columns.items():
        if not any(place == name or place.startswith(f"{name}.") for name in names):
            continue
        limit.add(pages.size)
        if place in names:  # one value per row
            continue
        if pages.values > MOST_ROW_NUMBERS * rows:
            what = f"{shown(path.name)} has {pages.values:,} numbers in {rows:,} rows"
            raise FileFormatError(what, f"Give at most {MOST_ROW_NUMBERS:,} per row")
        limit.add(NUMBER_BYTES * pages.values)


def _checked_texts(path: Path, name: str, column: Any, limit: ReadLimit) -> Any:
    """The column without its dictionary, whose texts count as often as they stand in the column."""
    import pyarrow as pa
    from pyarrow import compute

    if not isinstance(column, pa.DictionaryArray):  # of a type that is read as it stands
        column = column.cast(pa.large_string()).dictionary_encode()
    used = column.indices.drop_null().value_counts()  # a dictionary may have all texts of its row group
    sizes = compute.binary_length(column.dictionary.take(used.field("values")))
    longest = compute.max(sizes).as_py() or 0
    if longest > MOST_TEXT_BYTES:
        what = f"{shown(path.name)} has a text of {longest:,} bytes in column {shown(name)}"
        raise FileFormatError(what, f"Give texts of at most {MOST_TEXT_BYTES:,}")
    limit.add(compute.sum(compute.multiply(compute.cast(sizes, pa.int64()), used.field("counts"))).as_py() or 0)
    return column.dictionary_decode()
