"""What the pages of a Parquet file hold, by the pages' own headers: the file's footer may say anything of them.

A reader trusts a page's header, since a page that does not unpack to what it says is an error. Footer and headers are
structs of Thrift's compact protocol. They are read here, as pyarrow ends the process where a column's metadata does not
fit together. Fields go by their numbers, and only those that are needed are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HEAD_BYTES, MOST_HEAD_BYTES = 256, 16 * 1024 * 1024
"""Read of a page's header at first, and at most: that is pyarrow's own limit."""
MOST_FOOTER_BYTES = 4 * 1024 * 1024
"""Pyarrow makes 170 bytes of each: a million columns without a row took 2 GB."""
END_BYTES = 8
"""Of a file: how long its footer is, and its mark."""
SIZE, PACKED, DATA, DATA_2 = 2, 3, 5, 8
"""Of a page's header: its bytes unpacked and packed, and by its kind a struct, of values and their encoding."""
HEADER: Mapping[int, Any] = {SIZE: None, PACKED: None, DATA: {1: None, 2: None}, DATA_2: {1: None, 4: None}}
GROUPS, COLUMNS, ROWS, COLUMN = 4, 1, 3, 3
CHUNK: Mapping[int, Any] = {5: None, 7: None, 9: None, 11: None}
"""Of a column in a row group: its values, its bytes in the file, where its data and its dictionary begin."""
FOOTER: Mapping[int, Any] = {GROUPS: {COLUMNS: {COLUMN: CHUNK}, ROWS: None}}
SHARED = 7
"""DELTA_BYTE_ARRAY: texts that begin alike share that. They are not read to be counted; this program writes none."""
_FLAGS, _BYTE, _WHOLE, _DOUBLE, _TEXT, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
_WRONG_FORM = (AttributeError, LookupError, TypeError, RecursionError)


@dataclass(slots=True)
class Pages:
    """Of one column of a row group."""

    size: int = 0  # bytes, unpacked
    values: int = 0
    is_shared: bool = False


def footer_bytes(source: Any) -> int:
    """ValueError where pyarrow should not read it. What is no Parquet file is told by pyarrow."""
    size = source.size()
    length = int.from_bytes(source.read_at(END_BYTES, size - END_BYTES)[:4], "little") if size > END_BYTES else 0
    if MOST_FOOTER_BYTES < length < size:
        raise ValueError(f"its footer has {length:,} bytes")
    return length


def groups_of(source: Any) -> Iterator[tuple[int, list[Pages]]]:
    """Of each row group: its rows, and the pages of each column. ``source`` is a file of pyarrow's; ValueError where
    the pages are not those of the footer."""
    size, length = source.size(), footer_bytes(source)
    try:
        footer, _ = _struct(source.read_at(length, size - END_BYTES - length), 0, FOOTER)
        for group in footer.get(GROUPS, ()):
            yield group[ROWS], [_pages_of(source, column[COLUMN], size) for column in group[COLUMNS]]
    except _WRONG_FORM as error:
        raise ValueError("its footer or a page has a header of another form") from error


def _pages_of(source: Any, chunk: Mapping[int, int], size: int) -> Pages:
    values, packed, first = chunk[5], chunk[7], chunk[9]
    start = chunk.get(11) or first  # some writers say 0
    if not 0 < start <= first < start + packed <= size and values:
        raise ValueError("its footer names no place of its pages")
    end, pages = start + packed, Pages()
    while start < end and pages.values < values:
        header, length = _header(source, start)
        if header[SIZE] < 0 or header[PACKED] < 0:
            raise ValueError("the header of a page has no size")
        pages.size += header[SIZE]
        if data := header.get(DATA) or header.get(DATA_2):
            pages.values += max(0, data[1])
            pages.is_shared |= data[2 if DATA in header else 4] == SHARED
        start += length + header[PACKED]
    if pages.values != values:
        raise ValueError(f"its pages have {pages.values:,} values where its footer says {values:,}")
    return pages


def _header(source: Any, start: int) -> tuple[dict[int, Any], int]:
    for most in (HEAD_BYTES, MOST_HEAD_BYTES):
        try:
            return _struct(source.read_at(most, start), 0, HEADER)
        except IndexError:  # it is longer
            continue
    raise ValueError("a page has no header")


def _struct(data: bytes, at: int, wanted: Mapping[int, Any]) -> tuple[dict[int, Any], int]:
    """Those fields of a struct that are wanted, and where it ends. Of structs in it, and lists of them, some is."""
    fields: dict[int, Any] = {}
    number = 0
    while byte := data[at]:
        at += 1
        kind = byte & 15
        if byte > 15:
            number += byte >> 4
        else:
            number, at = _whole(data, at)
        if number not in wanted:
            at = _after(data, at, kind)
        elif kind in _LISTS:
            fields[number], at = _list(data, at, wanted[number])
        elif kind == _STRUCT:
            fields[number], at = _struct(data, at, wanted[number])
        else:
            fields[number], at = _whole(data, at)
    return fields, at + 1


def _list(data: bytes, at: int, wanted: Mapping[int, Any]) -> tuple[list[Any], int]:
    count, kind, at = _head(data, at)
    if kind != _STRUCT:
        raise TypeError("a list of no structs")
    items = []
    for _ in range(count):
        item, at = _struct(data, at, wanted)
        items.append(item)
    return items, at


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """Of a list: how many of what kind, and where they begin."""
    count, kind, at = data[at] >> 4, data[at] & 15, at + 1
    if count == 15:
        count, at = _varint(data, at)
    return count, kind, at


def _after(data: bytes, at: int, kind: int) -> int:
    """Where what begins here ends, if it is of this kind."""
    if kind in _FLAGS:
        return at
    if kind in _WHOLE:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _TEXT:
        length, at = _varint(data, at)
        return at + length
    if kind == _STRUCT:
        while byte := data[at]:
            at = _after(data, at + 1 if byte > 15 else _after(data, at + 1, _WHOLE[0]), byte & 15)
        return at + 1
    if kind in _LISTS:
        count, kind, at = _head(data, at)
        for _ in range(count):
            at = at + 1 if kind in _FLAGS else _after(data, at, kind)
            if at > len(data):
                raise IndexError(at)
        return at
    if kind not in (_BYTE, _DOUBLE):
        raise ValueError("a header has a field of no known kind")
    return at + (1 if kind == _BYTE else 8)


def _whole(data: bytes, at: int) -> tuple[int, int]:
    if (value := data[at]) < 128:  # as most are
        return (value >> 1) ^ -(value & 1), at + 1
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a header has a number of over 64 bits")
