"""`trace` on the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engine.jobs.progress import ProgressFile
from engine.store.schema import TRACES
from tests.cli import run, run_json
from tests.engine.profile.made_traces import write_trace


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "made.json.gz"
    write_trace(path, 2_000)
    return path


def test_add_list_compare_and_remove(place: str, made: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow.json"
    write_trace(slow, 2_000, slower=2)
    rows = run_json(
        "trace", "add", str(made), str(slow), "--store", place, "--label", "mine", "--tokens", "100", "--keep"
    )
    assert [tuple(row) for row in rows] == [TRACES.names] * 2
    assert [(row["source"], row["label"], row["tokens"]) for row in rows] == [
        ("made.json.gz", "mine", 100),
        ("slow.json", "mine", 100),
    ]
    one, other = (row["trace_id"] for row in rows)
    assert {row["trace_id"] for row in run_json("trace", "list", "--store", place)} == {one, other}
    found = run_json("trace", "compare", one, other, "--store", place)
    assert (found["control"], found["test"]) == (one, other)
    assert found["difference_us"] == pytest.approx(sum(row["difference_us"] for row in found["families"]))
    assert found["difference_us"] > 0
    sums = run_json("sql", "SELECT family, sum(calls) AS calls FROM trace_ops GROUP BY 1 ORDER BY 1", "--store", place)
    assert {"family": "launch", "calls": 800} in sums
    assert run_json("trace", "rm", one, "--store", place, "--yes") == [{"trace_id": one}]
    assert [row["trace_id"] for row in run_json("trace", "list", "--store", place)] == [other]


def test_people_read_tables(place: str, made: Path) -> None:
    assert "NVIDIA H100" in run("trace", "add", str(made), "--store", place, "--events").out
    (row,) = run_json("trace", "list", "--store", place)
    text = run("trace", "compare", row["trace_id"], row["trace_id"], "--store", place).out
    for word in ("family", "launch", "attention", "kernel launches", "idle gaps of a device"):
        assert word in text, word
    assert run("trace", "rm", row["trace_id"], "--store", place).code == 2  # nobody agreed
    assert "origin" in run("trace", "list", "--store", place).out


def test_what_is_wrong_is_one_line(place: str, made: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(made.read_bytes()[:-500])
    assert "is cut off" in run("trace", "add", str(broken), "--store", place).error
    assert "is no trace" in run("trace", "add", str(Path(__file__)), "--store", place).error
    assert "cannot be read" in run("trace", "add", str(tmp_path / "none.json"), "--store", place).error
    assert "there is no run" in run("trace", "add", str(made), "--run", "x", "--store", place).error
    assert "there is no trace" in run("trace", "compare", "x", "y", "--store", place).error
    assert (
        "'--tokens': Input should be a valid integer"
        in run("trace", "add", str(made), "--tokens", "many", "--store", place).error
    )
    assert "`python -m engine trace add` makes one" in run("trace", "list", "--store", place).err


def test_a_table_is_a_trace_too(place: str, tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("name\tcount\ttotal_ms\tavg_ms\nfmha\t10\t5\t0.5\n")
    (row,) = run_json("trace", "add", str(path), "--store", place)
    assert (row["form"], row["device_us"]) == ("table", 5000.0)


def test_a_file_that_was_packed_twice_is_no_trace(place: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(gzip.compress(b"[]")))
    assert "is no trace" in run("trace", "add", str(path), "--store", place).error


def test_a_damaged_trace_can_be_removed(place: str, made: Path) -> None:
    """By its whole name, with the file that it kept."""
    (row,) = run_json("trace", "add", str(made), "--store", place, "--keep")
    name = row["trace_id"]
    sheet = Path(place) / "traces" / f"trace_id={name}" / "trace.json"
    sheet.write_text("{")
    listed = run("trace", "list", "--store", place)
    assert listed.code == 0 and "left out: " in listed.err and name in listed.err
    assert run_json("trace", "rm", name, "--store", place, "--yes") == [{"trace_id": name}]
    assert not sheet.parent.exists() and list((Path(place) / "profiles").iterdir()) == []
    assert run("trace", "rm", name, "--store", place, "--yes").code == 2


def test_a_file_that_is_no_trace_leaves_the_others(place: str, made: Path, tmp_path: Path) -> None:
    torn, said = tmp_path / "torn.json", tmp_path / "said.jsonl"
    torn.write_text("no trace")
    result = run("trace", "add", "--progress", str(said), str(torn), str(made), "--store", place, "--json")
    assert result.code == 0 and "left out" in result.err
    (row,) = json.loads(result.out)
    parts = ProgressFile(said).parts()
    assert [(part.state, part.file, part.made_ids) for part in parts] == [
        ("failed", "torn.json", ()),
        ("done", "made.json.gz", (row["trace_id"],)),
    ]
    assert "is no trace" in parts[0].error
    for files in ([str(torn)], [str(torn), str(torn)]):
        assert run("trace", "add", *files, "--store", place).code == 2
