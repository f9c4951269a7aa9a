"""The tables: what every column says, and what its type takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from engine.store.schema import KINDS, RUNS, SAMPLES

UNITS = ("_s", "_ang", "_mb", "_nat")


def test_every_column_says_what_it_is() -> None:
    for kind in KINDS:
        for table in (kind.main, *kind.tables):
            assert (table.columns[0].name, table.columns[0].required) == (kind.key, True)
            assert len(set(table.names)) == len(table.names) and set(table.order) <= set(table.names)
            for column in table:
                assert column.meaning.strip() == column.meaning != "", column.name
                assert column.name.isidentifier() and column.name.islower()
                assert not column.name.endswith(UNITS) or column.type == pa.float64(), column.name


def test_rows_become_columns_and_what_is_not_said_is_null() -> None:
    table = SAMPLES.rows([{"run_id": "a", "sample_id": 1, "smiles": "C", "passed": True, "clean": False}])
    assert table.schema.equals(SAMPLES.schema)
    (row,) = table.to_pylist()
    assert (row["run_id"], row["sample_id"], row["text"]) == ("a", 1, None)
    assert SAMPLES.rows([]).num_rows == 0


def test_a_key_that_is_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match="samples has no column mood, moood"):
        SAMPLES.rows([{"run_id": "a", "moood": 1}, {"mood": 2}])


# --- values of a sheet --------------------------------------------------------------------------------------------

LATER = timezone(timedelta(hours=2))
FITTING = [
    ("source", "的\0 'x'", "的\0 'x'"),
    ("created_at", "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("created_at", "2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=LATER)),
    ("wall_s", 1, 1.0),
    ("seed", 2**63 - 1, 2**63 - 1),
    ("seed", -(2**63), -(2**63)),
    ("equal_work", False, False),
    ("tags", ["a", "的"], ["a", "的"]),
]
MISFITTING: list[tuple[str, Any]] = [
    ("run_id", 1), ("run_id", None), ("origin", ""), ("source", True),
    ("created_at", 5), ("created_at", ""), ("created_at", "today"), ("created_at", "0001-01-01T00:00:00+14:00"),
    ("created_at", "9999-12-31T23:59:59-14:00"), ("wall_s", "1"), ("wall_s", True), ("wall_s", 10**400),
    ("samples", "1"), ("samples", True), ("seed", 2**63), ("seed", -(2**63) - 1), ("equal_work", 1), ("tags", ["a", 1]),
]  # fmt: skip


def read(name: str, said: Any) -> Any:
    return RUNS.row_of({"run_id": "a", "origin": "measured", name: said})[name]


@pytest.mark.parametrize(("name", "said", "value"), FITTING)
def test_a_value_in_the_type_of_its_column(name: str, said: Any, value: Any) -> None:
    result = read(name, said)
    assert (result, type(result)) == (value, type(value))
    assert RUNS.rows([{name: result}]).column(name).to_pylist() == [value]


@pytest.mark.parametrize(("name", "said"), MISFITTING)
def test_a_value_of_another_type_is_refused(name: str, said: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        read(name, said)
