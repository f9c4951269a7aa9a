"""A generation under the profiler: the window, its marks and counts, its steps, the same samples as without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.profile.traces import PHASES, passes_of
from engine.questions import ask
from engine.store.files import Files
from engine.store.schema import TRACE
from engine.store.store import Store
from tests.cli import run
from tests.engine.profile.test_reading import read
from tests.small_models import use_small_model

ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "60", "--seed", "3")
MOLECULES = ("CC=O", "OCC", "CCN")


@pytest.fixture(autouse=True)
def store_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def the_trace() -> dict[str, Any]:
    (row,) = Store.open().rows("SELECT * FROM traces")
    return row


def marks() -> dict[str, int]:
    rows = Store.open().rows("SELECT name, count(*) AS n FROM trace_marks GROUP BY 1")
    return {
        row["name"].removeprefix("driftscope::"): row["n"] for row in rows if row["name"].startswith("driftscope::")
    }


def test_a_run_keeps_its_trace(store_folder: Path) -> None:
    result = run("run", *MOLECULES, *ASKED, "--lp", "exact", "--profile", "--profile-steps", "5", "--json")
    assert result.code == 0, result.err
    (row,) = json.loads(result.out)
    trace = the_trace()
    assert trace["trace_id"] in result.err and "5 forward passes" in result.err
    assert (trace["run_id"], trace["origin"], trace["counted_by"]) == (row["run_id"], "measured", "engine")
    assert (trace["forward_passes"], trace["label"], trace["source"]) == (5, "small:final, exact", "run --profile")
    counts = marks()
    assert counts["template"] == 1 and counts["prefill"] >= 1
    assert counts["sample"] == counts["constraint"] == 5  # one of each a pass: the counts are the window's
    assert 0 < trace["forced_tokens"] < trace["tokens"]
    assert set(json.loads(trace["counters"])) == {"prefill_s", "forward_s", "constraint_s", "sampling_s", "decode_s"}
    kept = store_folder / trace["file"]
    assert kept.is_file() and len(read(kept).rows) == trace["events"]
    families = {op["family"] for op in Store.open().rows("SELECT family FROM trace_ops WHERE side = 'host'")}
    assert {"gemm", "attention", "index"} <= families


def test_samples_are_the_same_as_without() -> None:
    words = ("generate", *MOLECULES, *ASKED, "--lp", "group-v2.1", "--json")
    plain, traced = run(*words), run(*words, "--profile", "--profile-steps", "4")
    assert plain.code == traced.code == 0, traced.err
    ids = [[sample["token_ids"] for sample in json.loads(result.out)["samples"]] for result in (plain, traced)]
    assert ids[0] == ids[1]
    assert the_trace()["source"] == "generate --profile"


def test_a_window_behind_some_passes(tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    words = ("--profile", "--profile-skip", "3", "--profile-steps", "2", "--profile-output", str(path))
    result = run("generate", *MOLECULES, *ASKED, "--lp", "none", *words)
    assert result.code == 0, result.err
    trace, counts = the_trace(), marks()
    assert (trace["forward_passes"], trace["tokens"], trace["samples"]) == (2, 6, None)
    assert counts == {"decode": 4, "sample": 2, "constraint": 2, "step": 2}  # no template, no prefill
    assert len(json.loads(path.read_text())["traceEvents"]) > trace["events"]


JUNK = {"letters", "punctuation", "extra_digit", "fourth_number", "missing_comma", "trailing_mark"}


def captured(*words: str) -> list[dict[str, Any]]:
    """Rows of passes by what they wrote. The phases of each add up, and each pass wrote something."""
    result = run(*words, *ASKED, "--profile")
    assert result.code == 0, result.err
    store = Store.open()
    entry = store.listing(TRACE).entries[-1]
    passes = passes_of(store, entry)
    assert len(passes.marks) == entry.row["forward_passes"] == len(passes.us) - 1
    assert passes.us[:-1].sum(axis=1) == pytest.approx([mark["dur_us"] for mark in passes.marks])
    assert (passes.us[:-1, [PHASES.index("forward"), PHASES.index("constraint")]] > 0).all()
    ends = [mark["start_us"] + mark["dur_us"] for mark in passes.marks]
    assert all(end <= later["start_us"] for end, later in zip(ends, passes.marks[1:], strict=False))
    rows = ask(store, "profiles_phases", [entry.id]).tables["states"].to_pylist()
    assert sum(row["passes"] for row in rows) == len(passes.marks)
    return rows


@pytest.mark.parametrize("backend", ["fast", "hf"])
def test_what_each_step_of_a_run_wrote(backend: str) -> None:
    """The tokens are the run's own, and junk is where its blocks say so."""
    words = ("--lp", "group-v2.1", "--backend", backend, "--profile-steps", "1000")
    states, store = captured("run", *MOLECULES, *words), Store.open()
    (row,) = store.rows("SELECT forward_passes FROM runs")
    assert row["forward_passes"] == states[0]["of"]
    written = store.rows("SELECT * FROM trace_steps ORDER BY sample_id, pos")
    for sample in store.rows("SELECT * FROM samples"):
        own = [token for token in written if token["sample_id"] == sample["sample_id"]]
        assert [token["pos"] for token in own] == list(range(sample["tokens"]))
        assert [token["token_id"] for token in own] == sample["token_ids"]
        assert [token["forced"] for token in own] == sample["forced"]
    kinds = {(row["sample_id"], row["block"]): set(row["kinds"]) for row in store.rows("SELECT * FROM blocks")}
    marked = [token for token in written if token["mark"]]
    for token in marked:
        assert set(token["kinds"]) == kinds[token["sample_id"], token["block"]]
        assert set(token["kinds"]) & (JUNK if token["mark"] == "junk" else {"cut"})
    junk = {token["step"] for token in marked if token["mark"] == "junk"}
    assert next(row["passes"] for row in states if row["state"] == "with junk") == len(junk) > 0


def test_a_generation_is_linked_to_the_run_that_it_repeats(tmp_path: Path) -> None:
    assert run("run", *MOLECULES, *ASKED, "--lp", "group-v2.1").code == 0
    (row,) = Store.open().rows("SELECT run_id FROM runs")
    words = ("generate", *MOLECULES[:2], "--lp", "group-v2.1", "--profile-steps", "9", "--profile-sums")
    captured(*words, "--profile-run", row["run_id"])
    (trace,) = Store.open().rows("SELECT run_id, file, counted_by FROM traces")
    assert trace == {"run_id": row["run_id"], "file": None, "counted_by": "engine"}
    other = run(*words, *ASKED[:-1], "4", "--profile", "--profile-run", row["run_id"])
    assert other.code == 0 and "its samples have other tokens" in other.err
    elsewhere = tmp_path / "elsewhere"
    assert run(*words, *ASKED, "--profile", "--store", str(elsewhere)).code == 0
    assert len(Store(Files(elsewhere)).listing(TRACE).entries) == 1
    assert len(Store.open().listing(TRACE).entries) == 2
