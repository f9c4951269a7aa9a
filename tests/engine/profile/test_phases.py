"""Steps of a trace: how long each was in which phase, what it wrote, and which of that is junk or cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.profile.phases import PHASES, StepPhases, mean_us, steps_of
from engine.store.files import LocalFiles
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from tests.cli import run
from tests.small_models import use_small_model

ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "60", "--seed", "3")
MOLECULES = ("CC=O", "OCC", "CCN")
JUNK = {"letters", "punctuation", "extra_digit", "fourth_number", "missing_comma", "trailing_mark"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))


def captured(*words: str) -> list[StepPhases]:
    result = run(*words, *ASKED, "--profile")
    assert result.code == 0, result.err
    store = Store.open()
    steps, _, why = steps_of(store, store.found(TRACE).entries[-1])
    assert why == ""
    return steps


def check(steps: list[StepPhases], passes: int) -> None:
    """Phases add up, and each step wrote something."""
    assert len(steps) == passes
    for step in steps:
        assert set(step.phases_us) <= set(PHASES) and min(step.phases_us.values()) > 0
        assert sum(step.phases_us.values()) == pytest.approx(step.dur_us)
        assert {"forward", "constraint"} <= set(step.phases_us) and step.state != "unknown"
    ends = [step.start_us + step.dur_us for step in steps]
    assert all(end <= later.start_us for end, later in zip(ends[:-1], steps[1:], strict=True))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("backend", ["fast", "hf"])
def test_what_each_step_of_a_run_wrote(backend: str) -> None:
    """The tokens are the run's own, and junk is where its blocks say so."""
    words = ("--lp", "group-v2.1", "--backend", backend, "--profile-steps", "1000")
    steps, store = captured("run", *MOLECULES, *words), Store.open()
    (row,) = store.rows("SELECT forward_passes FROM runs")
    check(steps, row["forward_passes"])
    written = store.rows("SELECT * FROM trace_steps ORDER BY sample_id, pos")
    for sample in store.rows("SELECT * FROM samples"):
        own = [token for token in written if token["sample_id"] == sample["sample_id"]]
        assert [token["pos"] for token in own] == list(range(sample["tokens"]))
        assert [token["token_id"] for token in own] == sample["token_ids"]
        assert [token["forced"] for token in own] == sample["forced"]
    kinds = {(row["sample_id"], row["block"]): set(row["kinds"]) for row in store.rows("SELECT * FROM blocks")}
    marked = [token for token in written if token["mark"]]
    assert any(token["mark"] == "junk" for token in marked)
    for token in marked:
        assert set(token["kinds"]) == kinds[token["sample_id"], token["block"]]
        assert set(token["kinds"]) & (JUNK if token["mark"] == "junk" else {"cut"})
    junk = [step for step in steps if step.state == "junk"]
    assert {step.step for step in junk} == {token["step"] for token in marked if token["mark"] == "junk"}
    assert sum(mean_us(junk).values()) == pytest.approx(sum(step.dur_us for step in junk) / len(junk))


@pytest.mark.usefixtures("place")
def test_a_window_in_the_middle() -> None:
    found = captured("run", *MOLECULES, "--lp", "exact", "--profile-skip", "3", "--profile-steps", "4")
    check(found, 4)
    store = Store.open()
    samples = {row["sample_id"]: row["token_ids"] for row in store.rows("SELECT * FROM samples")}
    written = store.rows("SELECT * FROM trace_steps ORDER BY step")
    assert all(samples[token["sample_id"]][token["pos"]] == token["token_id"] for token in written)
    assert min(token["pos"] for token in written) > 0 and {step.state for step in found} == {"normal"}


@pytest.mark.usefixtures("place")
def test_a_generation_is_linked_to_the_run_that_it_repeats(tmp_path: Path) -> None:
    assert run("run", *MOLECULES, *ASKED, "--lp", "group-v2.1").code == 0
    (row,) = Store.open().rows("SELECT run_id FROM runs")
    words = ("generate", *MOLECULES[:2], "--lp", "group-v2.1", "--profile-steps", "9", "--profile-sums")
    check(captured(*words, "--profile-run", row["run_id"]), 9)
    (trace,) = Store.open().rows("SELECT run_id, file, counted_by FROM traces")
    assert trace == {"run_id": row["run_id"], "file": None, "counted_by": "engine"}
    other = run(*words, *ASKED[:-1], "4", "--profile", "--profile-run", row["run_id"])
    assert other.code == 0 and "its samples have other tokens" in other.err
    elsewhere = tmp_path / "elsewhere"
    assert run(*words, *ASKED, "--profile", "--store", str(elsewhere)).code == 0
    assert len(Store(LocalFiles(elsewhere)).found(TRACE).entries) == 1
    assert len(Store.open().found(TRACE).entries) == 2


@pytest.mark.usefixtures("place")
def test_without_a_profile_its_options_mean_nothing() -> None:
    for words in (("--profile-run", "x"), ("--profile-sums",), ("--profile-output", "x")):
        result = run("generate", "CC=O", *ASKED, *words)
        assert result.code == 2 and f"{words[0]} belongs to --profile" in result.err
    missing = run("generate", "CC=O", *ASKED, "--profile", "--profile-run", "nothing")
    assert missing.code == 2 and "there is no run 'nothing'" in missing.err and missing.out == ""
