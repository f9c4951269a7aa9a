"""What a store holds, listed, read in, written out, annotated, checked and removed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.chem.structure_files import to_sdf
from engine.store.files import Files
from engine.store.schema import RUN, RUNS
from engine.store.staging import unfinished_ids
from engine.store.store import VARIABLE, Store
from tests.cli import run, run_json
from tests.engine.chem.pickles import embedded, references, write
from tests.engine.store.reports.documents import document
from tests.engine.store.stored_runs import add, begun, folder_of, ids, retype, sheet_of, store_at, written


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A control and a test, a week later."""
    files = Files(tmp_path_factory.mktemp("whole"))
    written(files, "20260101-none", 8, lp="none", wall_s=100.0, model_step="final", passes=4)
    later = {"created_at": "2026-01-08T00:00:00+00:00", "label": "better", "equal_work": True}
    written(files, "20260108-exact", 8, lp="exact", wall_s=25.0, passes=8, steps=True, **later)
    return files.root


@pytest.fixture(autouse=True)
def store(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """What the commands see without ``--store``; its place has a name that would trip a careless one."""
    folder = shutil.copytree(whole, tmp_path / "a [b] 的")
    monkeypatch.setenv(VARIABLE, str(folder))
    monkeypatch.chdir(tmp_path)
    return store_at(folder)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "store"))
    return tmp_path / "store"


# --- lists, and the runs in them --------------------------------------------------------------------------------------


def test_the_runs_as_a_table_and_one_of_them() -> None:
    result = run("runs")
    head, first, _ = result.out.splitlines()
    assert head.split()[:4] == ["run_id", "label", "origin", "model_alias"]
    assert first.split()[:8] == ["20260101-none", "measured", "toy", "final", "none", "8", "50.0%", "0.0%"]
    assert (result.code, result.err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in run("show", "exact").out.splitlines())
    assert (lines["run_id"], lines["samples"], lines["equal_work"]) == ("20260108-exact", "8", "yes")
    assert "temperature" not in lines, "what is not known is not shown"


@pytest.mark.parametrize("command", [["verify"], ["sql", "SELECT 1 FROM runs"], ["runs"]])
def test_a_store_that_is_not_there_is_said_to_be_none(tmp_path: Path, command: list[str]) -> None:
    result = run(*command, "--store", str(tmp_path / "typo"))
    said = "typo' has no run;" if command == ["runs"] else "typo' does not exist: it reads as an empty store"
    assert result.code == 0 and result.err.count("\n") <= 2 and said in result.err
    assert not (tmp_path / "typo").exists(), "looking makes nothing"


def test_damage_is_named_at_most_ten_times_and_the_others_are_listed(store: Store) -> None:
    sheet_of(store, "20260101-none").write_text("{")
    (store.home.root / "runs" / "holiday\n\x1b[31mphotos").mkdir()
    result = run("runs")
    assert [line.split()[0] for line in result.out.splitlines()] == ["run_id", "20260108-exact"]
    foreign, damaged = sorted(result.err.splitlines(), key=lambda line: "no JSON" in line)
    assert "run_id=20260101-none: run.json holds no JSON object" in damaged
    assert "photos: it is not named run_id=<id>" in foreign and foreign.isprintable()
    assert "run.json holds no JSON object" in run("show", "20260101-none").error
    for number in range(40):
        (store.home.root / "runs" / f"run_id=gone{number}").mkdir()
    *named, last = run("runs").err.splitlines()
    assert len(named) == 10 and last == "left out: 32 more; `verify` names all"
    assert run("verify").out.count("gone") == 40


def test_what_a_foreign_sheet_says_cannot_break_the_terminal(store: Store) -> None:
    evil = "x\n\x1b[2J\u202e"
    written(store.home, "evil", lp=evil, model_alias=evil, source=evil, label=evil, notes="x" * 4_000_000)
    for words in (["runs"], ["show", "evil"], ["compare", "evil", "exact"]):
        result = run(*words)
        assert result.code == 0 and "\x1b" not in result.out + result.err and len(result.out) < 30_000
        assert all(line.isprintable() for line in result.out.splitlines())
    (row,) = run_json("show", "evil")
    assert (row["lp"], len(row["notes"])) == (evil, 4_000_000)


def test_unfinished_runs(store: Store) -> None:
    add(begun(store.home, "stopped", 10), range(6))
    writing = begun(store.home, "writing", 3)
    writing.lock()
    begun(store.home, "torn")
    (store.home.root / "staging" / "torn" / "run.json").write_text("{")
    assert run_json("runs", "--unfinished") == [
        {"run_id": "stopped", "samples_done": 6, "samples": 10, "state": "stopped"},
        {"run_id": "torn", "samples_done": None, "samples": None, "state": "damaged"},
        {"run_id": "writing", "samples_done": 0, "samples": 3, "state": "being written"},
    ]
    assert len(run_json("runs")) == 2, "none of them is a run yet"
    assert "being written by another process. Stop that first" in run("rm", "writing", "stopped", "--yes").error
    assert "stopped" in unfinished_ids(store.home, RUN)
    writing.release()
    removed = run_json("rm", "writing", "stopped", "torn", "--yes")
    assert removed == [{"run_id": name} for name in ("writing", "stopped", "torn")]
    assert list((store.home.root / "staging").iterdir()) == []


def test_labels_and_tags_name_their_run_and_lists_show_them() -> None:
    words = ("--tag", "paper", "--tag", "slow disk", "--label", "my control", "--notes", "ohne LP 的")
    (row,) = run_json("annotate", "20260101-none", *words)
    assert (row["tags"], row["label"], row["notes"]) == (["paper", "slow disk"], "my control", "ohne LP 的")
    assert run_json("annotate", "my control", "--untag", "paper", "--label", "")[0]["tags"] == ["slow disk"]
    head, first, _ = run("runs").out.splitlines()
    assert head.split()[-1] == "tags" and first.endswith("slow disk") and "my control" not in first
    rows = run_json("sql", "SELECT run_id FROM runs WHERE list_contains(tags, 'slow disk')")
    assert rows == [{"run_id": "20260101-none"}]


@pytest.mark.parametrize(("line", "agrees"), [(" Y \n", True), ("yes\n", True), ("n\n", False), ("yikes\n", False)])
def test_a_run_is_removed_when_somebody_agrees(store: Store, line: str, *, agrees: bool) -> None:
    result = run("rm", "none", stdin=line.encode(), is_typed=True)
    assert (result.code, result.out) == (0 if agrees else 2, "")
    assert result.err.startswith("Remove 20260101-none from ") and "[y/N] " in result.err
    assert ("nothing was removed" in result.err, len(ids(store))) == ((False, 1) if agrees else (True, 2))


def test_runs_are_removed_all_or_none(store: Store) -> None:
    assert "nothing was removed. Answer y, or give --yes" in run("rm", "none", stdin=b"y\n").error
    assert "there is no run 'gone'" in run("rm", "none", "gone", "--yes").error
    sheet_of(store, "20260101-none").write_text("{")  # verify says to remove it
    removed = run_json("rm", "20260101-none", "20260108-exact", "exact", "--yes")
    assert removed == [{"run_id": "20260101-none"}, {"run_id": "20260108-exact"}] and ids(store) == []


def test_verify_names_damage_file_by_file_and_ends_by_it(store: Store) -> None:
    """A missing file and a sheet that does not read; stopped runs are no damage."""
    begun(store.home, "begun", 10)
    result = run("verify")
    assert result.out.splitlines() == ["whole runs  2", "unfinished: begun: 0 of 10 samples; stopped"]
    assert (result.code, result.err) == (0, "")
    (folder_of(store, "20260108-exact") / "steps.parquet").unlink()
    written(store.home, "third")
    sheet_of(store, "third").write_text("[]")
    result = run("verify")
    assert (result.code, result.err) == (2, "driftscope: 2 damaged. Run or import them again, or remove them\n")
    damaged = [line for line in result.out.splitlines() if line.startswith("damaged: ")]
    assert "run_id=20260108-exact/steps.parquet: it is missing" in damaged[0]
    assert "run_id=third: run.json holds no JSON object" in damaged[1]
    as_json = run("verify", "--json")
    states = [(row["run_id"], row["state"]) for row in as_json.document if row["state"] != "damaged"]
    assert as_json.code == 2 and states == [("20260101-none", "whole"), ("begun", "unfinished")]


def test_a_note_of_verify_names_its_file(store: Store) -> None:
    """The bug: the text named the run alone, so that two notes of it were the same line."""
    (folder_of(store, "20260108-exact") / "Thumbs.db").touch()
    result = run("verify")
    assert [
        line.endswith("run_id=20260108-exact/Thumbs.db: run.json does not name it")
        for line in result.out.splitlines()
        if line.startswith("note: ")
    ] == [True]
    assert result.code == 0


def test_an_error_inside_duckdb_is_one_line() -> None:
    """In a process of its own: pytest takes the log that would go to the terminal."""
    select = "SELECT reservoir_quantile(i, 0.5, 2000000000) FROM range(9) t(i)"
    command = [sys.executable, "-m", "engine", "sql", select]
    cwd = Path(__file__).parents[3]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "driftscope: Memory allocation failure\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["show", "a\nb"], r"there is no run 'a\nb'. Known are"),
        (["annotate", "none"], "nothing to change. Give --label, --notes, --tag or --untag"),
        (["runs", "--store", "s3://bucket/x"], "it is no folder. Give a folder; `aws s3 sync` copies one to S3"),
        (["sql", "SELECT 1", "--seconds=nan"], "Invalid value for '--seconds'"),
        (["import", "missing*.json"], "matches no file"),
        (["import", "bad.json", "bad.sdf"], "none of 2 files can be read. "),
        (["export", "none", "there.json"], "there.json already exists. Give another name, or --force"),
        (["export", "none", "pipe", "--force"], "already exists"),
        (["export", "none", "out.json", "--sdf", "other.sdf"], "a run goes to one file, in one form of report"),
        (["references", "add", "bad.sdf", "--label", "a"], "is cut short"),
    ],
)
def test_mistakes_are_one_line(argv: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"passes": 1}')
    (tmp_path / "bad.sdf").write_text("\n\n\n  3  2  0  0  0  0  0  0  0  0999 V2000\n")
    (tmp_path / "there.json").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    result = run(*argv)
    assert result.code == 2 and message in result.err.splitlines()[-1]
    assert (tmp_path / "there.json").read_text() == "mine" and (tmp_path / "pipe").is_fifo()


# --- files in and out -------------------------------------------------------------------------------------------------


def report(path: Path, **more: Any) -> dict[str, Any]:
    made = document(**more)
    content = json.dumps(made).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return made


def test_files_come_in_by_pattern_and_once_and_a_program_reads_what_became_of_each(tmp_path: Path, empty: Path) -> None:
    report(tmp_path / "a.json")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress((tmp_path / "a.json").read_bytes()))
    (tmp_path / "c.json").write_text("{")
    result = run("import", "*.json*", "--progress", "said", "--json", "--label", "ours")
    first, second = result.document
    assert list(first) == list(RUNS.names) and first == second
    assert (first["origin"], first["label"]) == ("imported", "ours")
    there, left_out = result.err.splitlines()
    assert there.startswith(f"b.json.gz is already in the store, as {first['run_id']}; `rm`")
    assert left_out.startswith("left out: c.json: ")
    assert ids(store_at(empty)) == [first["run_id"]]
    lines = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    assert [lines[0][key] for key in ("part", "parts", "file", "work")] == [0, 3, "a.json", 0.0]
    ended = [line for line in lines if "state" in line]
    assert [(line["file"], line["part"], line["parts"], line["state"]) for line in ended] == [
        ("a.json", 0, 3, "done"),
        ("b.json.gz", 1, 3, "there"),
        ("c.json", 2, 3, "failed"),
    ]
    assert {line["run_id"] for line in ended[:2]} == {first["run_id"]}
    assert "it ends early" in ended[2]["error"]
    assert ended[0]["done"] == ended[0]["samples"] == first["samples"]


@pytest.mark.parametrize(("shared", "folder", "file"), [("", 0o700, 0o600), ("1", 0o755, 0o644)])
def test_a_store_is_its_owners_alone_unless_a_shared_one_is_asked_for(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: str, folder: int, file: int
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_SHARED", shared)
    report(tmp_path / "one.json")
    assert run("import", "one.json").code == 0
    modes = [(path.is_dir(), path.stat().st_mode & 0o777) for path in (empty, *empty.rglob("*"))]
    assert set(modes) == {(True, folder), (False, file)}


def test_a_run_goes_out_as_it_came_in(tmp_path: Path) -> None:
    made = report(tmp_path / "one.json")
    (row,) = run_json("import", "one.json")
    (tmp_path / "out.json.gz").write_bytes(b"")
    (exported,) = run_json("export", row["run_id"], "out.json.gz", "--force")
    assert exported["file"] == "out.json.gz"
    assert json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes())) == made
    assert run("export", row["run_id"]).out.splitlines()[-1].split() == [
        f"{row['run_id']}.json",
        str(row["samples"]),
        str(row["conformers"]),
    ]
    assert json.loads((tmp_path / f"{row['run_id']}.json").read_text()) == made


def test_conformers_of_a_run_go_out_by_either_reader(tmp_path: Path) -> None:
    made = document()
    text = made["passes"][0]["decoded_text"]
    damaged = made["passes"][0] | {"decoded_text": text.replace(">[/", "(cc6>[/")}
    (tmp_path / "one.json").write_text(json.dumps(made | {"passes": [made["passes"][0], damaged], "failures": []}))
    (row,) = run_json("import", "one.json")
    assert (row["samples"], row["decodes"], row["misread_blocks"]) == (2, 2, 1)
    for reader, count in (("strict", 1), ("group", 2)):
        words = ("--sdf", f"{reader}.sdf", "--reader", reader)
        assert run_json("export", row["run_id"], *words)[0]["conformers"] == count
    first, second = (tmp_path / "group.sdf").read_text().split("$$$$\n")[:2]
    assert first == (tmp_path / "strict.sdf").read_text().split("$$$$\n")[0]
    assert "6.0000 O" in second and "6.0000 O" not in first


def test_damaged_samples_are_named_where_they_are_asked_for(tmp_path: Path, empty: Path) -> None:
    report(tmp_path / "one.json")
    (row,) = run_json("import", "one.json")
    (samples,) = empty.rglob("samples*.parquet")
    samples.write_bytes(b"x" * samples.stat().st_size)
    for command in (["judge"], ["export", "--sdf", "out.sdf"]):
        assert f"the samples of {row['run_id']} are damaged. `verify`" in run(*command, row["run_id"]).error
    assert not (tmp_path / "out.sdf").exists()


def test_a_column_of_another_type_is_one_line_and_verify_names_it(store: Store) -> None:
    retype(store, "samples", "passed", "20260108-exact")
    for command in (["judge"], ["export"], ["evaluate"]):
        line = run(*command, "20260108-exact").error
        assert "samples" in line and "`verify` names" in line
    problem = "its column passed has the type string, not bool"
    (row,) = [row for row in json.loads(run("verify", "--json").out) if row["state"] == "damaged"]
    assert (row["run_id"], row["what"]) == ("20260108-exact", problem)


# --- references -------------------------------------------------------------------------------------------------------

CONTRACT = ("name", "molecules", "conformers")


def test_references_are_added_listed_made_and_removed(tmp_path: Path, empty: Path) -> None:
    (tmp_path / "a.sdf").write_text(to_sdf([embedded("CCO", 3), embedded("CCN"), embedded("CCN")]))
    (row,) = run_json("references", "add", "a.sdf", "--label", "drugs")
    assert [row[key] for key in (*CONTRACT, "repeated", "form")] == ["drugs", 2, 4, 1, "sdf"]
    assert run_json("references") == [row]
    assert "drugs  sdf" in run("references").out and run("verify").out == "whole references  1\n"
    assert run_json("references", "rm", "drugs", "--yes") == [{"reference_set": "drugs"}]
    (row,) = run_json("references", "make", "CCO", "CCCCO", "--per-molecule", "2", "--label", "ours")
    assert [row[key] for key in (*CONTRACT, "origin")] == ["ours", 2, 4, "made"]
    assert row["source"] == "ETKDGv3, 2 per molecule, seed 0"


def test_pickles_of_references_and_what_is_left_out(tmp_path: Path, empty: Path) -> None:
    pickled = references((("CCO", 3), ("CCN", 2)))
    pickled["CCO"]["confs"] += [pickled["CCO"]["confs"][0], pickled["CCN"]["confs"][0]]  # again, and a stranger
    write(tmp_path / "test.pickle", pickled)
    done = run("references", "add", "test.pickle", "--label", "group", "--json")
    (row,) = done.document
    assert [row[key] for key in (*CONTRACT, "form", "repeated", "left_out")] == ["group", 2, 5, "pickle", 1, 1]
    assert done.err == (
        "left out: conformer 5 of 'CCO' in test.pickle: 'CCO': its graph is 'CCN', which is not its key's 'CCO'\n"
    )
