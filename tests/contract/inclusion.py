"""Whether an answer still holds what was recorded: keys and rows may be added, none lost, and figures stay.

Recorded answers are kept small. A long list is its length and three of its rows; of a sentence or a path only that it
is text. Rows are found by their ids where they have such, and then others may come; else by their places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

TOLERANCE = 1e-6
MOST_ROWS, KEPT_ROWS = 8, 3
MOST_CHARS = 400
COUNT, ROWS, ID, TEXT = "(count)", "(rows)", "(id)", "(text)"
IDS = (
    *(("run_id",), ("trace_id",), ("log_id",), ("claim_id",), ("id",), ("table", "column"), ("run_id", "sample_id")),
    *(("sample_id",), ("alias", "step"), ("name",), ("column",), ("block",), ("lp",), ("smiles",)),
)
"""Columns that tell the rows of a list apart."""


def reduced(value: Any, without: Iterable[str] = (), every: Iterable[str] = (), has_texts: bool = False) -> Any:
    """What is recorded of an answer. ``without``: keys of figures that are others each time, such as seconds of now;
    ``every``: keys that are kept of each row of a long list; ``has_texts``: texts are kept as they are."""
    below = partial(reduced, without=without, every=every, has_texts=has_texts)
    if isinstance(value, dict):
        return {key: below(item) for key, item in value.items() if key not in without}
    if isinstance(value, list):
        if len(value) <= MOST_ROWS:
            return [below(item) for item in value]
        names = id_of(value)
        kept = range(KEPT_ROWS) if names is None else (0, len(value) // 2, len(value) - 1)
        rows = [below(value[index]) for index in kept]
        if names and every:
            part = {*names, *every}
            others = (row for index, row in enumerate(value) if index not in kept)
            rows += [below({key: item for key, item in row.items() if key in part}) for row in others]
        return {COUNT: len(value), ID: names, ROWS: rows}
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if (
        isinstance(value, str)
        and not has_texts
        and (value.count(" ") > 3 or value.startswith("/") or len(value) > MOST_CHARS)
    ):
        return TEXT
    return value


def lost(expected: Any, actual: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each thing that is recorded and no more: its path, keys joined by ``/`` without the places of rows, and why."""
    if expected == TEXT:
        if not isinstance(actual, str):
            yield path, f"no text: {actual!r}"
    elif isinstance(expected, dict) and COUNT in expected:
        yield from _lost_rows(expected[ROWS], expected[COUNT], expected[ID], actual, path)
    elif isinstance(expected, dict):
        if not isinstance(actual, dict):
            yield path, f"no object: {actual!r:.80}"
            return
        for key, item in expected.items():
            below = f"{path}/{key}".lstrip("/")
            if key in actual:
                yield from lost(item, actual[key], below)
            else:
                yield below, "the key is lost"
    elif isinstance(expected, list):
        yield from _lost_rows(expected, len(expected), id_of(expected), actual, path)
    elif not _is_equal(expected, actual):
        yield path, f"{expected!r} became {actual!r:.200}"


def _lost_rows(
    expected: list[Any], count: int, names: Sequence[str] | None, actual: Any, path: str
) -> Iterator[tuple[str, str]]:
    if not isinstance(actual, list):
        yield path, f"no list: {actual!r:.80}"
        return
    if len(actual) < count or (names is None and len(actual) != count):
        yield path, f"{count} rows became {len(actual)}"
        return
    by_id = {_id(row, names): row for row in reversed(actual)} if names else {}
    for index, row in enumerate(expected):
        if names is None:
            yield from lost(row, actual[index], path)
        elif (key := _id(row, names)) in by_id:
            yield from lost(row, by_id[key], path)
        else:
            yield _row_path(path, key), f"the row {key} is lost"


def id_of(rows: list[Any]) -> list[str] | None:
    """The first of ``IDS`` that all rows have and no two share."""
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    for names in IDS:
        keys = [_id(row, names) for row in rows]
        if all(isinstance(value, str | int) for key in keys for value in key) and len(set(keys)) == len(keys):
            return list(names)
    return None


def _id(row: Any, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) if isinstance(row, dict) else None for name in names)


def _row_path(path: str, key: tuple[Any, ...]) -> str:
    """Of a row that is lost as a whole: ``samples/log_weight_sd`` of a list of tables and columns."""
    return "/".join((path, *map(str, key))).lstrip("/")


def _is_equal(expected: Any, actual: Any) -> bool:
    numbers = (int, float)
    if isinstance(expected, numbers) and isinstance(actual, numbers) and not isinstance(expected, bool):
        return not isinstance(actual, bool) and math.isclose(expected, actual, rel_tol=TOLERANCE, abs_tol=1e-12)
    return type(expected) is type(actual) and bool(expected == actual)


def paths(expected: Any, path: str = "") -> Iterator[str]:
    """Every path of a recorded answer, as ``lost`` has them."""
    yield path
    if isinstance(expected, dict) and COUNT in expected:
        yield from (_row_path(path, _id(row, expected[ID] or ())) for row in expected[ROWS])
        expected = expected[ROWS]
    if isinstance(expected, dict):
        for key, item in expected.items():
            yield from paths(item, f"{path}/{key}".lstrip("/"))
    elif isinstance(expected, list):
        yield from (_row_path(path, _id(row, names)) for names in [id_of(expected)] if names for row in expected)
        for item in expected:
            yield from paths(item, path)
