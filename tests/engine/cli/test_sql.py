"""`sql` over a store with a damaged run."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli import run
from tests.pages.drift_stores import EXACT, WITH_JUNK, with_demo


@pytest.mark.parametrize("has_right_sums", [True, False])
def test_a_damaged_run_is_left_out_and_named(tmp_path: Path, *, has_right_sums: bool) -> None:
    """A column of another type, also where the sheet has the changed file's own size and sum."""
    store = with_demo(tmp_path / "store", EXACT, WITH_JUNK)
    (part,) = (tmp_path / "store").glob(f"*/run_id={EXACT}/samples*")
    table = pq.read_table(part)
    number = table.schema.get_field_index("smiles")
    pq.write_table(table.set_column(number, "smiles", pa.array([[{"x": 1}]] * table.num_rows)), part)
    sheet = part.with_name("run.json")
    if has_right_sums:
        document = json.loads(sheet.read_text())
        (file,) = (entry for entry in document["tables"].values() if entry["file"] == part.name)
        file |= {"bytes": part.stat().st_size, "sha256": hashlib.sha256(part.read_bytes()).hexdigest()}
        sheet.write_text(json.dumps(document))
    select = "SELECT DISTINCT run_id, max(smiles) > '' AS has FROM samples GROUP BY 1"
    result = run("sql", select, "--json", "--store", str(store.home.where))
    assert (result.code, json.loads(result.out)) == (0, [{"run_id": WITH_JUNK, "has": True}])
    if has_right_sums:  # else the listing leaves the whole run out, and names it
        assert f"left out are damaged files of {EXACT}; `verify` names them" in result.err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300", "x"])
def test_a_limit_is_a_time(seconds: str) -> None:
    assert "Invalid value for '--seconds'" in run("sql", "SELECT 1", f"--seconds={seconds}").error


def test_an_error_inside_duckdb_is_one_line() -> None:
    """In a process of its own: pytest takes the log that would go to the terminal."""
    select = "SELECT reservoir_quantile(i, 0.5, 2000000000) FROM range(9) t(i)"
    command = [sys.executable, "-m", "engine", "sql", select]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "failed inside DuckDB" in result.stderr
