"""What the pages of a Parquet column hold, by the pages' own headers: the file's footer may say anything of them.

A reader trusts a page's header, since a page that does not unpack to what it says is an error. The headers are structs
of Thrift's compact protocol; only the fields that are needed here have names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HEAD_BYTES, MOST_HEAD_BYTES = 256, 16 * 1024 * 1024
"""Read of a page's header at first, and at most: that is pyarrow's own limit."""
SIZE, PACKED, DATA, DICTIONARY, DATA_2 = 2, 3, 5, 7, 8
"""Fields of a page's header: its bytes unpacked and packed, and by its kind a struct."""
VALUES, ENCODING, ENCODING_2 = 1, 2, 4
"""Of that struct; in pages of version 2 the encoding has another number."""
SHARED = 7
"""DELTA_BYTE_ARRAY: texts that begin alike share that. They are not read to be counted; this program writes none."""


@dataclass(slots=True)
class Pages:
    """Of one column of a row group."""

    size: int = 0  # bytes, unpacked
    values: int = 0
    is_shared: bool = False


def pages_of(source: Any, column: Any, size: int) -> Pages:
    """``source``: a file of pyarrow's, of so many bytes. ValueError where the pages are not those of the footer."""
    start, pages = column.data_page_offset, Pages()
    if column.has_dictionary_page:
        start = column.dictionary_page_offset
    end = start + column.total_compressed_size
    if not 0 < start <= column.data_page_offset < end <= size and column.num_values:
        raise ValueError("its footer names no place of its pages")
    while start < end and pages.values < column.num_values:
        header, length = _header(source, start)
        packed, unpacked = header.get(PACKED, -1), header.get(SIZE, -1)
        if packed < 0 or unpacked < 0:
            raise ValueError("a page has no size")
        data = header.get(DATA) or header.get(DATA_2) or {}
        pages.size += unpacked
        pages.values += max(0, data.get(VALUES, 0))
        pages.is_shared |= data.get(ENCODING_2 if DATA_2 in header else ENCODING) == SHARED
        start += length + packed
    if pages.values != column.num_values:
        raise ValueError(f"its pages have {pages.values:,} values where its footer says {column.num_values:,}")
    return pages


def _header(source: Any, start: int) -> tuple[dict[int, Any], int]:
    for most in (HEAD_BYTES, MOST_HEAD_BYTES):
        try:
            return _struct(source.read_at(most, start), 0)
        except IndexError:  # it is longer
            continue
        except RecursionError:
            break
    raise ValueError("a page has no header")


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields by their numbers, and where the struct ends. Of texts nothing is kept."""
    fields: dict[int, Any] = {}
    number = 0
    while byte := data[at]:
        at += 1
        kind = byte & 15
        value: Any = None
        if byte >> 4:
            number += byte >> 4
        else:
            number, at = _whole(data, at)
        if kind in (4, 5, 6):
            value, at = _whole(data, at)
        elif kind == 8:
            length, at = _varint(data, at)
            at += length
        elif kind == 12:
            value, at = _struct(data, at)
        elif kind not in (1, 2):  # which are true and false
            raise ValueError("a page has a header of another kind")
        fields[number] = value
    return fields, at + 1


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
    raise ValueError("a page has a number of over 64 bits in its header")
