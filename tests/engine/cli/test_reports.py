"""``import`` and ``export`` in a terminal and as JSON: files in, once; runs out, the same."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.store.schema import RUNS
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.store.reports.documents import document


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def written(path: Path, **more: Any) -> dict[str, Any]:
    made = document(**more)
    content = json.dumps(made).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return made


def test_files_come_in_by_pattern_and_once(tmp_path: Path) -> None:
    written(tmp_path / "one.json")
    (tmp_path / "two.json.gz").write_bytes(gzip.compress((tmp_path / "one.json").read_bytes()))
    result = run("import", "*.json*", "--json", "--label", "ours")
    first, second = result.document
    assert list(first) == list(RUNS.names)
    assert first["run_id"] == second["run_id"]
    assert (first["origin"], first["label"]) == ("imported", "ours")
    assert result.err == f"two.json.gz is already in the store, as {first['run_id']}\n"
    assert len(Store.open().found().entries) == 1


@pytest.mark.parametrize(("shared", "folder", "file"), [("", 0o700, 0o600), ("1", 0o755, 0o644)])
def test_a_store_is_its_owners_alone_unless_a_shared_one_is_asked_for(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: str, folder: int, file: int
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_SHARED", shared)
    written(tmp_path / "one.json")
    assert run("import", "one.json").code == 0
    found = [(path.is_dir(), path.stat().st_mode & 0o777) for path in (place, *place.rglob("*"))]
    assert set(found) == {(True, folder), (False, file)}


def test_a_run_goes_out_as_it_came_in(tmp_path: Path) -> None:
    made = written(tmp_path / "one.json")
    (row,) = run_json("import", "one.json")
    (tmp_path / "out.json.gz").write_bytes(b"")
    (told,) = run_json("export", row["run_id"], "out.json.gz", "--force")
    assert told["file"] == "out.json.gz"
    assert json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes())) == made
    assert run("export", row["run_id"]).out.splitlines()[-1].split() == [f"{row['run_id']}.json", str(row["samples"])]
    assert json.loads((tmp_path / f"{row['run_id']}.json").read_text()) == made


def test_what_is_no_plain_file_is_never_written_over(tmp_path: Path) -> None:
    written(tmp_path / "one.json")
    (row,) = run_json("import", "one.json")
    os.mkfifo(tmp_path / "pipe")
    assert "already exists" in run("export", row["run_id"], "pipe", "--force").err
    assert (tmp_path / "pipe").is_fifo()


def test_conformers_of_a_run_go_out_by_either_reader(tmp_path: Path) -> None:
    made = document()
    text = made["passes"][0]["decoded_text"]
    damaged = made["passes"][0] | {"decoded_text": text.replace(">[/", "(cc6>[/")}
    (tmp_path / "one.json").write_text(json.dumps(made | {"passes": [made["passes"][0], damaged], "failures": []}))
    (row,) = run_json("import", "one.json")
    assert (row["samples"], row["decodes"], row["misread_blocks"]) == (2, 2, 1)
    strict, group = (
        run_json("export", row["run_id"], "--sdf", f"{reader}.sdf", "--reader", reader)[0]
        for reader in ("strict", "group")
    )
    assert (strict["conformers"], group["conformers"]) == (1, 2)
    first, second = (tmp_path / "group.sdf").read_text().split("$$$$\n")[:2]
    assert first == (tmp_path / "strict.sdf").read_text().split("$$$$\n")[0]
    assert "6.0000 O" in second and "6.0000 O" not in first
    assert run("export", row["run_id"], "--sdf", "strict.sdf").code == 2
    told = run("export", row["run_id"], "--sdf", "strict.sdf", "--force").out.splitlines()[-1]
    assert told.split() == ["strict.sdf", "2", "1", "strict"]  # samples, conformers
    assert run("export", row["run_id"], "out.json", "--sdf", "other.sdf").code == 2


@pytest.mark.parametrize("content", [b"xx", None])
def test_damaged_samples_are_named_where_they_are_asked_for(tmp_path: Path, content: bytes | None) -> None:
    """A file of another size, and one of the same that is not what was written."""
    written(tmp_path / "one.json")
    (row,) = run_json("import", "one.json")
    (samples,) = (tmp_path / "store").rglob("samples*.parquet")
    samples.write_bytes(content or b"x" * samples.stat().st_size)
    for command in (["judge"], ["export", "--sdf", "out.sdf"]):
        assert f"the samples of {row['run_id']} are damaged. `verify`" in run(*command, row["run_id"]).error
    assert not (tmp_path / "out.sdf").exists()


def test_where_no_file_can_be_read_that_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text("{")
    (tmp_path / "three.json").write_text("[]")
    told = run("import", "two.json", "three.json")
    assert (told.code, told.out) == (2, "")
    assert told.err.splitlines()[-1].startswith("driftscope: none of 2 files can be read. ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("import", "missing*.json"), "matches no file"),
        (("import", "."), "is a folder"),
        (("import", "bad.json"), "bad.json"),
        (("export", "nothing"), "there is no run 'nothing'"),
        (("export", "imported", "there.json"), "there.json already exists. Give another name, or --force"),
        (("export", "imported", "missing/there.json"), "cannot be written"),
    ],
)
def test_what_cannot_be_is_one_line(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    written(tmp_path / "one.json")
    run_json("import", "one.json")
    (tmp_path / "bad.json").write_text('{"passes": 1}')
    (tmp_path / "there.json").write_text("mine")
    assert told in run(*words).error
    assert (tmp_path / "there.json").read_text() == "mine"


def test_a_program_that_watches_reads_what_became_of_each_file(tmp_path: Path) -> None:
    written(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes((tmp_path / "a.json").read_bytes())
    (tmp_path / "c.json").write_text("{")
    result = run("import", "a.json", "b.json", "c.json", "--progress", "said", "--json")
    assert result.err.splitlines()[-1].startswith("left out: c.json: ")
    (row, _) = result.document
    lines = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    ended = [line for line in lines if "state" in line]
    assert [(line["file"], line["part"], line["parts"], line["state"]) for line in ended] == [
        ("a.json", 0, 3, "done"),
        ("b.json", 1, 3, "there"),
        ("c.json", 2, 3, "failed"),
    ]
    assert {line["run_id"] for line in ended[:2]} == {row["run_id"]}
    assert "it is no report" in ended[2]["error"]
    assert ended[0]["done"] == ended[0]["samples"] == row["samples"]
