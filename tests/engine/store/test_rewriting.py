"""What is judged later goes into a finished run: all of it or nothing, whatever its age, whoever does it meanwhile."""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.errors import StoreError
from engine.records import FailedCheck, MoleculeVerdict
from engine.store.columns import VERSION
from engine.store.sample_rows import run_columns, verdict_row, verdict_sums
from engine.store.schema import SAMPLES
from engine.store.staging import rewrite_run
from engine.store.store import Store
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import assert_whole, folder_of, store_at, written

RIGHT = MoleculeVerdict(2, 2, True, True, ())
WRONG = MoleculeVerdict(
    3, 2, False, True, (FailedCheck("stereo", (4,), "mirrored"),), strain_kcal=5.0, strain_field="MMFF94"
)
CRUSHED = MoleculeVerdict(0, 0, None, False, (FailedCheck("bond_lengths", (0, 1), "0.2 Å"),), strain_kcal=900.0)
UNKNOWN = MoleculeVerdict(0, 0, None, None, ())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = store_at(tmp_path)
    written(store.home, "one")
    return store


def judged(store: Store, *verdicts: MoleculeVerdict) -> None:
    entry = store.entry("one")
    rows = pq.read_table(entry.path("samples"), partitioning=None).to_pylist()
    for row, verdict in zip(rows, verdicts, strict=False):
        row |= verdict_row(row["clean"], verdict)
    rewrite_run(entry, {SAMPLES.name: SAMPLES.rows(rows)}, run_columns(verdict_sums(rows)))


def test_rows_and_rates_are_there_and_the_rest_is_as_it_was(store: Store) -> None:
    before = store.entry("one")
    judged(store, RIGHT, WRONG, UNKNOWN, CRUSHED)
    after = store.snapshot().entry("one")
    row = after.row
    assert (row["judged"], row["stereo_judged"], row["stereo_right"]) == (4, 2, 1)
    assert (row["stereo_sites"], row["stereo_sites_right"]) == (5, 4)
    assert (row["geometry_judged"], row["geometry_right"]) == (3, 2)
    assert (row["strain_kcal"], row["strain_samples"]) == (5.0, 1), "of right geometry alone"
    assert {key: row[key] for key in before.row} == dict(before.row)
    assert after.parts["blocks"] == before.parts["blocks"]
    assert after.key != before.key, "what was computed of the old rows is not taken for the new ones"
    known = store.rows("SELECT stereo_right, failed[1].check AS failed, text FROM samples ORDER BY sample_id")
    assert [(row["stereo_right"], row["failed"]) for row in known[:4]] == [
        (True, None), (False, "stereo"), (None, None), (None, "bond_lengths"),
    ]  # fmt: skip
    assert all(row["text"] for row in known)
    assert_whole(store)


@pytest.mark.parametrize(
    ("clean", "verdict", "usable"),
    [
        (True, RIGHT, True), (False, RIGHT, False), (True, WRONG, False),
        (True, UNKNOWN, False), (False, UNKNOWN, False),
        (True, MoleculeVerdict(0, 0, None, True, ()), True), (True, MoleculeVerdict(1, 1, True, False, ()), False),
        (True, MoleculeVerdict(1, 0, False, None, ()), False),
    ],
)  # fmt: skip
def test_usable_is_clean_with_stereo_and_geometry_right(
    clean: bool, verdict: MoleculeVerdict, usable: bool | None
) -> None:
    assert verdict.is_usable(clean) is usable
    assert verdict_sums([verdict_row(clean, verdict)])["usable"] == usable


def test_a_run_of_the_first_version_becomes_one_of_this(store: Store) -> None:
    path = folder_of(store, "one") / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 1}))
    judged(store, RIGHT)
    assert store.entry("one").version == VERSION
    assert_whole(store)


def test_wherever_it_fails_a_reader_finds_old_rows_or_new_ones_and_the_next_attempt_mends_it(store: Store) -> None:
    for turn in range(100):
        fault = Fault(raising(OSError(errno.ENOSPC, "full")), turn)
        with fault.armed(), suppress(StoreError):
            judged(store, RIGHT)
        store = store.snapshot()
        assert store.rows("SELECT count(text) AS texts FROM samples")[0]["texts"] == 4
        if not fault.is_over:
            break
    assert turn > 5
    assert store.entry("one").row["judged"] == 1
    assert_whole(store)


def test_of_two_who_judge_at_once_the_second_is_told(store: Store) -> None:
    entry = store.entry("one")
    judged(store, RIGHT)
    rows = pq.read_table(store.entry("one").path("samples"), partitioning=None)
    with pytest.raises(StoreError, match="changed by another process"):
        rewrite_run(entry, {SAMPLES.name: rows}, {})
    assert_whole(store)
