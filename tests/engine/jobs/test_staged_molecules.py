"""The molecules of an unfinished run, as a file that anybody may have written."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import RunError
from engine.jobs.rmsd_references import FILE
from engine.jobs.run import MOLECULES_FILE, molecules_of
from engine.store.files import LocalFiles
from engine.store.staging import BEFORE_SHEET
from tests.engine.store.stored_runs import begun


def test_the_molecules_of_a_foreign_store_are_counted_before_they_are_read(tmp_path: Path) -> None:
    """A file of 10 KB that would be 50 GB of texts."""
    staging = begun(LocalFiles(tmp_path), "foreign")
    path = tmp_path / staging.folder / MOLECULES_FILE
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 500_000, pa.int32()), ["C" * 100_000])
    pq.write_table(pa.table({"smiles": texts}), path)
    tracemalloc.start()
    with pytest.raises(RunError, match="its rows would take over"):
        molecules_of(staging)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size < 1_000_000 and peak < 50_000_000
    for wrong in (b"PAR1", b"", path.read_bytes()[:-9]):
        path.write_bytes(wrong)
        with pytest.raises(RunError, match=r"molecules of .* are lost"):
            molecules_of(staging)


def test_what_lies_there_before_the_sheet_is_what_a_sweep_knows() -> None:
    assert {MOLECULES_FILE, FILE} == BEFORE_SHEET
