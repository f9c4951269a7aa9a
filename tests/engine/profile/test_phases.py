"""Steps of a trace: how long each was in which phase, what it wrote, and which of that is junk or cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.profile.traces import PHASES, passes_of
from engine.questions import ask
from engine.store.files import Files
from engine.store.schema import TRACE
from engine.store.store import Store
from tests.cli import run
from tests.small_models import use_small_model

ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "60", "--seed", "3")
MOLECULES = ("CC=O", "OCC", "CCN")
JUNK = {"letters", "punctuation", "extra_digit", "fourth_number", "missing_comma", "trailing_mark"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))


def captured(*words: str) -> list[dict[str, Any]]:
    """Rows of passes by what they wrote. The phases of each add up, and each pass wrote something."""
    result = run(*words, *ASKED, "--profile")
    assert result.code == 0, result.err
    store = Store.open()
    entry = store.found(TRACE).entries[-1]
    found = passes_of(store, entry)
    assert len(found.marks) == entry.row["forward_passes"] == len(found.us) - 1
    assert found.us[:-1].sum(axis=1) == pytest.approx([mark["dur_us"] for mark in found.marks])
    assert (found.us[:-1, [PHASES.index("forward"), PHASES.index("constraint")]] > 0).all()
    ends = [mark["start_us"] + mark["dur_us"] for mark in found.marks]
    assert all(end <= later["start_us"] for end, later in zip(ends, found.marks[1:], strict=False))
    rows = ask(store, "profiles_phases", [entry.id]).tables["states"].to_pylist()
    assert sum(row["passes"] for row in rows) == len(found.marks)
    return rows


@pytest.mark.usefixtures("place")
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


@pytest.mark.usefixtures("place")
def test_a_window_in_the_middle() -> None:
    (row,) = captured("run", *MOLECULES, "--lp", "exact", "--profile-skip", "3", "--profile-steps", "4")
    store = Store.open()
    samples = {row["sample_id"]: row["token_ids"] for row in store.rows("SELECT * FROM samples")}
    written = store.rows("SELECT * FROM trace_steps ORDER BY step")
    assert all(samples[token["sample_id"]][token["pos"]] == token["token_id"] for token in written)
    assert min(token["pos"] for token in written) > 0 and row["state"] == "without junk"


@pytest.mark.usefixtures("place")
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
    assert len(Store(Files(elsewhere)).found(TRACE).entries) == 1
    assert len(Store.open().found(TRACE).entries) == 2


@pytest.mark.usefixtures("place")
def test_without_a_profile_its_options_mean_nothing() -> None:
    for words in (("--profile-run", "x"), ("--profile-sums",), ("--profile-output", "x")):
        result = run("generate", "CC=O", *ASKED, *words)
        assert result.code == 2 and f"{words[0]} belongs to --profile" in result.err
    missing = run("generate", "CC=O", *ASKED, "--profile", "--profile-run", "nothing")
    assert missing.code == 2 and "there is no run 'nothing'" in missing.err and missing.out == ""
