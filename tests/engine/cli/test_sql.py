"""`sql` over a store with a damaged run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli import run
from tests.pages.drift_stores import EXACT, WITH_JUNK, with_demo


def test_a_damaged_run_is_left_out_and_named(tmp_path: Path) -> None:
    store = with_demo(tmp_path / "store", EXACT, WITH_JUNK)
    (part,) = (tmp_path / "store").glob(f"*/run_id={EXACT}/samples*")
    table = pq.read_table(part)
    number = table.schema.get_field_index("smiles")
    pq.write_table(table.set_column(number, "smiles", pa.array([[{"x": 1}]] * table.num_rows)), part)
    select = "SELECT DISTINCT run_id, max(smiles) > '' AS has FROM samples GROUP BY 1"
    result = run("sql", select, "--json", "--store", str(store.home.where))
    assert (result.code, json.loads(result.out)) == (0, [{"run_id": WITH_JUNK, "has": True}])


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300", "x"])
def test_a_limit_is_a_time(seconds: str) -> None:
    assert "Invalid value for '--seconds'" in run("sql", "SELECT 1", f"--seconds={seconds}").error


def test_an_error_inside_duckdb_is_one_line() -> None:
    """In a process of its own: pytest takes the log that would go to the terminal."""
    select = "SELECT reservoir_quantile(i, 0.5, 2000000000) FROM range(9) t(i)"
    command = [sys.executable, "-m", "engine", "sql", select]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr == "driftscope: Memory allocation failure\n"
