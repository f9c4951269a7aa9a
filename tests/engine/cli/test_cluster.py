"""``run --submit`` and ``run --engine ray`` in a terminal: options, what is told, what Ctrl-C does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from engine.cli.generate import Cluster
from engine.errors import StoreError
from engine.jobs import cluster
from engine.jobs.cluster import minutes_of
from engine.jobs.run import RunState
from engine.store.schema import RUN
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.jobs.small_runs import fake_slurm, interrupted_after_one_group
from tests.small_models import use_small_model

ASKED = ("run", "CC=O", "CCO", "--model", "small", "--max-new-tokens", "40", "--group", "1")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of random weights, and a store of its own."""
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Slurm that takes all and carries out nothing; what it took is kept in this file."""
    kept = tmp_path / "taken"
    fake_slurm(tmp_path, monkeypatch, f'cat "$1" >> {kept}')
    return kept


def begun() -> list[str]:
    return unfinished_ids(Store.open().home, RUN)


def test_each_model_and_lp_becomes_a_run_of_tasks() -> None:
    rows = run_json(*ASKED, "--submit", "debug", "--array", "2", "--lp", "exact", "--lp", "none", "--label", "far")
    assert [(row["lp"], row["samples"], row["label"], row["device"]) for row in rows] == [
        ("exact", 2, "far", "cpu"),
        ("none", 2, "far", "cpu"),
    ]
    assert begun() == []


def test_tasks_write_the_texts_of_this_process() -> None:
    run_json(*ASKED)
    run_json(*ASKED, "--submit", "debug", "--array", "2")
    found = Store.open().rows("SELECT sample_id, count(DISTINCT text) AS texts FROM samples GROUP BY sample_id")
    assert [row["texts"] for row in found] == [1, 1]


def test_what_was_handed_out_is_told(slurm: Path, place: Path) -> None:
    words = ("--submit", "a100", "--array", "9", "--time", "01:30:00", "--slurm", "account=chem", "--threads", "3")
    (row,) = run_json(*ASKED, *words)
    logs = place / "submitted" / row["run_id"]
    assert row == {
        "run_id": row["run_id"],
        "molecules": 2,
        "samples": 2,
        "jobs": ["4711_0", "4711_1"],  # no more tasks than groups
        "cancel": "scancel 4711",
        "logs": str(logs),
    }
    assert begun() == [row["run_id"]]
    asked = slurm.read_text()
    for line in ("gres=gpu:a100:1", "time=90", "account=chem", "cpus-per-task=3", f"output={logs}/%A_%a_0_log.out"):
        assert f"#SBATCH --{line}\n" in asked


def test_a_terminal_gets_a_table_of_what_was_handed_out(slurm: Path, tmp_path: Path) -> None:
    result = run(*ASKED, "--submit", "slurm", "--lp", "exact", "--lp", "none", "--logs", str(tmp_path / "logs"))
    assert (result.code, result.err) == (0, "")
    head, *lines = result.out.splitlines()
    assert head.split() == ["run_id", "molecules", "samples", "jobs", "cancel", "logs"]
    assert [line.split()[-3:] for line in lines] == [["scancel", "4711", str(tmp_path / "logs")]] * 2


def test_a_run_goes_on_as_tasks_and_as_tasks_go_on_here() -> None:
    for then in (["--submit", "debug", "--array", "5"], []):
        with interrupted_after_one_group():
            assert run(*ASKED).code == 130
        (left,) = begun()
        (row,) = run_json("run", "--resume", left, *then)
        assert (row["run_id"], row["samples"], row["resumed"]) == (left, 2, 1)
    assert run("run", "--resume", left, "--submit", "debug").error.startswith(f"driftscope: {left} is finished")


def refused(run: RunState) -> None:
    raise StoreError("the disk is full", "Free some")


def test_all_that_is_missing_may_be_to_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunState, "publish", refused)
        run("run", "CC=O", "--model", "small", "--max-new-tokens", "40", "--submit", "debug")
    (left,) = begun()
    (row,) = run_json("run", "--resume", left, "--submit", "debug")
    assert (row["run_id"], row["resumed"]) == (left, 0)


def test_ctrl_c_leaves_the_tasks_and_says_how_to_end_them(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    result = run(*ASKED, "--submit", "slurm", "--wait")
    assert result.code == 130
    (left,) = begun()
    *_, told, stopped = result.err.splitlines()
    assert told.startswith(f"the tasks of {left} keep running; `scancel 4711` ends them")
    assert stopped == "driftscope: stopped"


def test_tasks_that_end_before_the_run_is_whole_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise MemoryError("out of memory")

    monkeypatch.setattr(cluster, "load_model", lost)
    result = run(*ASKED, "--submit", "debug")
    (left,) = begun()
    line = result.err.splitlines()[-1]
    assert f"{left} is unfinished: out of memory. See " in line
    assert line.endswith(f"`python -m engine run --resume {left}`")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--submit", "local", "--engine", "ray"), "give either --submit or --engine ray"),
        (("--array", "3"), "--array belongs to --submit"),
        (("--wait",), "--wait belongs to --submit"),
        (("--time", "5"), "--time belongs to --submit"),
        (("--submit", "debug", "--actors", "3"), "--actors belongs to --engine ray"),
        (("--address", "x:1"), "--address belongs to --engine ray"),
        (("--gpus-per-task", "1"), "--gpus-per-task belongs to --submit and --engine ray"),
        (("--submit", "debug", "--partition", "x"), "--submit debug has no partition"),
        (("--submit", "ssh"), "'ssh' is not one of 'local'"),
        (("--submit", "local", "--time", "1:30"), "'1:30' is not a time. Give minutes, such as 90, or 01:30:00"),
        (("--submit", "local", "--gpus-per-task", "-1"), "greater than or equal to 0"),
        (("--submit", "slurm"), "sbatch is not installed here"),
        (("--engine", "ray", "--address", "127.0.0.1:1"), "Ray does not start or answer at '127.0.0.1:1'"),
    ],
)
def test_what_cannot_be_is_one_line_and_begins_nothing(
    words: tuple[str, ...], told: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert told in run(*ASKED, *words).error
    assert not place.exists()


@pytest.mark.parametrize(
    ("package", "words", "told"),
    [
        ("submitit", ("--submit", "local"), "pip install submitit"),
        ("ray", ("--engine", "ray"), "pip install ray"),
    ],
)
def test_what_is_not_installed_is_named(
    package: str, words: tuple[str, ...], told: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert told in run(*ASKED, *words).error
    assert not place.exists()


@pytest.mark.parametrize(
    ("text", "minutes"), [("90", 90), ("01:30:00", 90), ("00:00:01", 1), ("100:00:30", 6001), ("1", 1)]
)
def test_times(text: str, minutes: int) -> None:
    assert minutes_of(text) == minutes


def test_the_parsers_list_is_the_runners() -> None:
    named = get_args(get_args(get_type_hints(Cluster)["submit"])[0])
    assert (*named, "ray") == get_args(cluster.Kind)  # listed twice, since every command reads the parser's file
