"""``runs``, ``show``, ``compare``, ``annotate``, ``rm``, ``verify`` on stores made of rows, without a model."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from engine.cli.main import main
from engine.inspection.runs import run_facts
from engine.store.files import Files
from engine.store.schema import RUN, RUNS
from engine.store.staging import unfinished_ids
from engine.store.store import VARIABLE, Store
from tests.cli import Result, keys, run, run_json
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import add, begun, folder_of, ids, sheet_of, store_at, written


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
    place = shutil.copytree(whole, tmp_path / "a [b] 的")
    monkeypatch.setenv(VARIABLE, str(place))
    return store_at(place)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_the_runs_as_json_with_every_column() -> None:
    first, second = run_json("runs")
    assert tuple(first) == tuple(second) == RUNS.names
    assert (first["run_id"], second["run_id"]) == ("20260101-none", "20260108-exact")
    assert (first["created_at"], first["samples"], first["label"]) == ("2026-01-02T03:04:05+00:00", 8, None)


def test_the_runs_as_a_table() -> None:
    result = run("runs")
    head, first, _ = result.out.splitlines()
    assert head.split()[:4] == ["run_id", "label", "origin", "model_alias"]
    assert first.split()[:8] == ["20260101-none", "measured", "toy", "final", "none", "8", "50.0%", "0.0%"]
    assert (result.code, result.err) == (0, "")


def test_a_store_without_runs(tmp_path: Path) -> None:
    assert run_json("runs", "--store", str(tmp_path / "empty")) == []
    assert not (tmp_path / "empty").exists(), "looking makes nothing"


def test_the_demo_store_is_there_when_nothing_else_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.store import store as module

    monkeypatch.setattr(module, "HOME", module.HOME.with_name("no-such-store"))
    monkeypatch.setattr(module, "DEMO", Path(os.environ[VARIABLE]))
    monkeypatch.delenv(VARIABLE)
    assert [row["run_id"] for row in run_json("runs")] == ["20260101-none", "20260108-exact"]
    assert "which is read-only" in run("rm", "20260101-none", "--yes").error


def test_one_run_with_all_that_is_known_of_it() -> None:
    (row,) = run_json("show", "none")
    assert (row["run_id"], row["wall_s"], row["pass_rate"]) == ("20260101-none", 100.0, 0.5)
    lines = dict(line.split(maxsplit=1) for line in run("show", "exact").out.splitlines())
    assert lines["run_id"] == "20260108-exact"
    assert lines["samples"] == "8" and lines["equal_work"] == "yes" and lines["label"] == "better"
    assert "temperature" not in lines, "what is not known is not shown"


def test_a_damaged_run_is_named_and_the_others_are_listed(store: Store) -> None:
    sheet_of(store, "20260101-none").write_text("{")
    (Path(store.home.where) / "runs" / "holiday\n\x1b[31mphotos").mkdir()
    result = run("runs")
    assert [line.split()[0] for line in result.out.splitlines()] == ["run_id", "20260108-exact"]
    assert result.code == 0
    foreign, damaged = sorted(result.err.splitlines(), key=lambda line: "no JSON" in line)
    assert "run_id=20260101-none: run.json holds no JSON object" in damaged
    assert "photos: it is not named run_id=<id>" in foreign and foreign.isprintable()
    assert "run.json holds no JSON object" in run("show", "20260101-none").error


def test_what_a_foreign_sheet_says_cannot_break_the_terminal(store: Store) -> None:
    evil = "x\n\x1b[2J\u202e"
    written(store.home, "evil", lp=evil, model_alias=evil, model_step=evil, origin=evil, source=evil, label=evil)
    for result in (
        run("runs"),
        run("show", "evil"),
        run("compare", "evil", "exact"),
        run("annotate", "evil", "--notes", evil),
    ):
        assert result.code == 0
        assert all(line.isprintable() for line in result.out.splitlines())
        assert "\x1b" not in result.out + result.err
    assert run_json("show", "evil")[0]["lp"] == evil


def test_unfinished_runs(store: Store) -> None:
    assert run_json("runs", "--unfinished") == []
    stopped = begun(store.home, "stopped", 10)
    add(stopped, range(4))
    add(stopped, [4, 5])
    writing = begun(store.home, "writing", 3)
    writing.lock()
    begun(store.home, "torn")
    (Path(store.home.where) / "staging" / "torn" / "run.json").write_text("{")
    assert run_json("runs", "--unfinished") == [
        {"run_id": "stopped", "samples_done": 6, "samples": 10, "state": "stopped"},
        {"run_id": "torn", "samples_done": None, "samples": None, "state": "damaged"},
        {"run_id": "writing", "samples_done": 0, "samples": 3, "state": "being written"},
    ]
    assert len(run_json("runs")) == 2, "none of them is a run yet"
    assert "being written by another process. Stop that first" in run("rm", "writing", "stopped", "--yes").error
    assert "stopped" in unfinished_ids(store.home, RUN)
    writing.release()
    assert run_json("rm", "writing", "stopped", "torn", "--yes") == [
        {"run_id": name} for name in ("writing", "stopped", "torn")
    ]
    assert list((Path(store.home.where) / "staging").iterdir()) == []


def test_a_run_that_is_finished_while_it_is_listed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = begun(store.home, "quick")
    add(staging, range(4))
    read = Files.read_object

    def finished_first(files: Files, name: str) -> dict[str, Any]:
        if "group" in name:
            files.remove(staging.folder)
        return read(files, name)

    monkeypatch.setattr(Files, "read_object", finished_first)
    assert run_json("runs", "--unfinished") == []


def test_runs_beside_a_control() -> None:
    control, test = run_json("compare", "none", "exact")
    assert keys(test, ["part", *RUNS.names, "pass_rate", "pass_rate_low", "wall_s_ratio", "tokens_ratio"])
    assert (control["part"], test["part"]) == ("control", "test")
    assert (test["wall_s_ratio"], test["pass_rate"], test["pass_rate_ratio"]) == (0.25, 1.0, 2.0)
    assert "4.00× faster" in run("compare", "none", "exact").out


def test_what_was_not_measured_is_blank(store: Store) -> None:
    written(store.home, "said", origin="reported", wall_s=57.0, passes=None, tokens=None)
    control, test = run_json("compare", "said", "none")
    assert control["pass_rate"] is test["tokens_ratio"] is None
    assert run("compare", "said", "none").code == 0


def test_a_label_names_its_run_everywhere_and_lists_show_it() -> None:
    run_json("annotate", "20260101-none", "--label", "my control")
    assert "my control" in run("runs").out
    (row,) = run_json("annotate", "my control", "--notes", "ohne LP 的")
    assert (row["run_id"], row["notes"]) == ("20260101-none", "ohne LP 的")
    assert "20260101-none" in run("show", "my control").out
    assert run("compare", "my control", "my control").code == 0
    store = Store.open()
    assert run_facts(store, "my control").run_id == row["run_id"]
    others = [entry.id for entry in store.found().entries if entry.id != row["run_id"]]
    run_json("annotate", others[0], "--label", "my control")
    assert "there are 2 runs like 'my control'. Give more of its name: " in run("show", "my control").error
    (row,) = run_json("annotate", row["run_id"], "--label", "")
    assert (row["label"], row["notes"]) == (None, "ohne LP 的")


def test_tags_are_added_and_taken_away() -> None:
    assert "tags" not in run("runs").out.split()
    (row,) = run_json("annotate", "none", "--tag", "paper", "--tag", "slow disk", "--label", "control")
    assert (row["tags"], row["label"]) == (["paper", "slow disk"], "control")
    assert run_json("annotate", "none", "--untag", "paper", "--tag", "的")[0]["tags"] == ["slow disk", "的"]
    head, first, second = run("runs").out.splitlines()
    assert head.split()[-1] == "tags" and first.endswith("slow disk, 的") and not second.endswith("的")
    assert ["tags", "slow", "disk,", "的"] in [line.split() for line in run("show", "none").out.splitlines()]
    found = run_json("sql", "SELECT run_id FROM runs WHERE list_contains(tags, 'slow disk')")
    assert found == [{"run_id": "20260101-none"}]


class Terminal(io.TextIOWrapper):
    """Somebody who types one line."""

    def __init__(self, line: str) -> None:
        super().__init__(io.BytesIO(line.encode()), encoding="utf-8")

    def isatty(self) -> bool:
        return True


def typed(line: str, *argv: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.multiple(sys, stdin=Terminal(line), stdout=out, stderr=err):
        code = main(argv)
    return Result(code, out.getvalue(), err.getvalue())


@pytest.mark.parametrize(
    ("line", "agrees"),
    [("y\n", True), (" Y \n", True), ("yes\n", True), ("n\n", False), ("", False), ("yikes\n", False)],
)
def test_a_run_is_removed_when_somebody_agrees(store: Store, line: str, *, agrees: bool) -> None:
    result = typed(line, "rm", "none")
    assert (result.code, result.out) == (0 if agrees else 2, "")
    assert result.err.startswith("Remove 20260101-none from ") and "[y/N] " in result.err
    assert ("nothing was removed" in result.err, len(ids(store))) == ((False, 1) if agrees else (True, 2))


def test_runs_are_removed_without_a_question(store: Store) -> None:
    assert run_json("rm", "none", "20260108-exact", "exact", "--yes") == [
        {"run_id": "20260101-none"},
        {"run_id": "20260108-exact"},
    ]
    assert ids(store) == []


def test_nothing_is_removed_where_one_name_is_wrong(store: Store) -> None:
    assert "nothing was removed. Answer y, or give --yes" in run("rm", "none", stdin=b"y\n").error
    assert "there is no run 'gone'" in run("rm", "none", "gone", "--yes").error
    assert "there are 2 runs like '2026'" in run("rm", "none", "2026", "--yes").error
    assert len(ids(store)) == 2


def test_a_damaged_run_can_be_removed(store: Store) -> None:
    """The bug: ``verify`` said to remove it, and ``rm`` that it is damaged."""
    sheet_of(store, "20260101-none").write_text("{")
    assert run("rm", "20260101-none", "--yes").code == 0
    assert run("verify").code == 0


def test_a_store_that_is_whole(store: Store) -> None:
    begun(store.home, "begun", 10)
    rows = run_json("verify")
    assert [(row["state"], row["run_id"]) for row in rows] == [
        ("whole", "20260101-none"),
        ("whole", "20260108-exact"),
        ("unfinished", "begun"),
    ]
    result = run("verify")
    assert result.out.splitlines() == ["whole runs  2", "unfinished: begun: 0 of 10 samples; stopped"]
    assert (result.code, result.err) == (0, "")


def test_damage_is_named_file_by_file_and_makes_it_fail(store: Store) -> None:
    """A flipped byte, a missing file, a foreign one and a sheet that does not read."""
    flip(folder_of(store, "20260101-none") / "samples.parquet")
    (folder_of(store, "20260108-exact") / "steps.parquet").unlink()
    (folder_of(store, "20260108-exact") / "mine.txt").touch()
    written(store.home, "third")
    written(store.home, "fourth")
    sheet_of(store, "fourth").write_text("[]")
    result = run("verify")
    assert result.code == 2
    assert result.err == "driftscope: 4 damaged. Run or import them again, or remove them\n"
    first, *lines = result.out.splitlines()
    assert first == "whole runs  1"
    for place, what in {
        "run_id=20260101-none/samples.parquet": "its bytes are not those that were written",
        "run_id=20260108-exact/steps.parquet": "it is missing",
        "run_id=20260108-exact/mine.txt": "run.json does not name it",
        "run_id=fourth": "run.json holds no JSON object (Expected `object`, got `array`)",
    }.items():
        (line,) = (line for line in lines if f"{place}: " in line)
        assert line.startswith("damaged: ") and line.endswith(f"{place}: {what}")
    assert len(lines) == 4
    as_json = run("verify", "--json")
    assert as_json.code == 2
    states = {(row["run_id"], row["state"]) for row in as_json.document}
    assert states == {
        ("20260101-none", "damaged"),
        ("20260108-exact", "damaged"),
        (None, "damaged"),
        ("third", "whole"),
    }


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo])
@pytest.mark.parametrize("place", ["staging", "references"])
def test_a_file_in_place_of_a_folder_is_damage(store: Store, place: str, make: Callable[[Path], None]) -> None:
    path = Path(store.home.where, place)
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    flip(folder_of(store, "20260101-none") / "samples.parquet")
    result = run("verify")
    assert result.code == 2 and "driftscope: 2 damaged" in result.err
    assert "its bytes are not those that were written" in result.out and f"{path}" in result.out


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["show", "gone"], "there is no run 'gone'. Known are"),
        (["show", "a\nb"], r"there is no run 'a\nb'"),
        (["show", ""], "there is no run ''"),
        (["show", "2026"], "there are 2 runs like '2026'. Give more of its name: 20260101-none, 20260108-exact"),
        (["compare", "none", "gone"], "there is no run 'gone'"),
        (["annotate", "none"], "nothing to change. Give --label, --notes, --tag or --untag"),
        (["annotate", "gone", "--label", "x"], "there is no run 'gone'"),
        (["annotate", "none", "--notes", "x" * 10_001], "At most 10,000"),
        (["rm", "gone", "--yes"], "there is no run 'gone'"),
        (["rm", "../..", "--yes"], "there is no run '../..'"),
        (["runs", "--store", "a\0b"], "cannot be a store: it is no folder"),
        (["verify", "--store", __file__], "cannot be a store: it is no folder. Give a folder"),
        (["runs", "--store", "s3://bucket/x"], "it is no folder. Give a folder; `aws s3 sync` copies one to S3"),
    ],
)
def test_mistakes_are_one_line(argv: list[str], told: str) -> None:
    assert told in run(*argv).error


@pytest.mark.parametrize("argv", [["annotate", "none", "--label", "x"], ["rm", "none", "--yes"]])
def test_a_store_that_cannot_be_written(store: Store, argv: list[str]) -> None:
    with Fault(raising(OSError(errno.EROFS, os.strerror(errno.EROFS)))).armed():
        assert "Read-only file system. Make room there, check its rights, or choose another place" in run(*argv).error
        assert [run(command).code for command in ("runs", "verify")] == [0, 0]
        assert run_json("show", "none")[0]["label"] is None
    assert len(ids(store)) == 2
