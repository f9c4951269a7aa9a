"""Steps of a trace: how long each was in which phase, what it wrote, and which of that is junk or cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreError
from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.phases import PHASES, Phases, StepPhases, phases_of_steps
from engine.store.files import LocalFiles
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from tests.cli import run
from tests.engine.profile.made_traces import crafted, write_trace
from tests.small_models import use_small_model

ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "60", "--seed", "3")
MOLECULES = ("CC=O", "OCC", "CCN")
JUNK = {"letters", "punctuation", "extra_digit", "fourth_number", "missing_comma", "trailing_mark"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))


def captured(*words: str) -> Phases:
    result = run(*words, *ASKED, "--profile")
    assert result.code == 0, result.err
    return phases_of_trace()


def phases_of_trace() -> Phases:
    store = Store.open()
    return phases_of_steps(store.found(TRACE).entries[-1])


def check(found: Phases, passes: int) -> None:
    """Phases add up, and each step wrote something."""
    assert found.why == "" and len(found.steps) == passes
    for step in found.steps:
        assert set(step.phases_us) <= set(PHASES) and min(step.phases_us.values()) > 0
        assert sum(step.phases_us.values()) == pytest.approx(step.dur_us)
        assert {"forward", "constraint"} <= set(step.phases_us) and step.tokens
    ends = [step.start_us + step.dur_us for step in found.steps]
    assert all(end <= later.start_us for end, later in zip(ends[:-1], found.steps[1:], strict=True))


def marks(step: StepPhases) -> set[str | None]:
    return {token.mark for token in step.tokens}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("backend", ["fast", "hf"])
def test_what_each_step_of_a_run_wrote(backend: str) -> None:
    """The tokens are the run's own, and junk is where its blocks say so."""
    words = ("--lp", "group-v2.1", "--backend", backend, "--profile-steps", "1000")
    found = captured("run", *MOLECULES, *words)
    store = Store.open()
    samples = {row["sample_id"]: row for row in store.rows("SELECT * FROM samples")}
    (row,) = store.rows("SELECT forward_passes FROM runs")
    check(found, row["forward_passes"])
    for sample_id, sample in samples.items():
        own = [token for step in found.steps for token in step.tokens if token.sample_id == sample_id]
        assert [token.pos for token in own] == list(range(sample["tokens"]))
        assert [token.token_id for token in own] == sample["token_ids"]
        assert [token.forced for token in own] == sample["forced"]
    kinds = {(row["sample_id"], row["block"]): set(row["kinds"]) for row in store.rows("SELECT * FROM blocks")}
    marked = [token for step in found.steps for token in step.tokens if token.mark]
    assert marked and any(token.mark == "junk" for token in marked)
    for token in marked:
        assert token.block is not None and token.kinds is not None
        assert set(token.kinds) == kinds[token.sample_id, token.block]
        assert set(token.kinds) & (JUNK if token.mark == "junk" else {"cut"})
    junk, normal = found.example("junk"), found.example("normal")
    assert junk is not None and "junk" in marks(junk) and "prefill" not in junk.phases_us
    assert normal is None or "junk" not in marks(normal)
    assert sum(found.mean_us("junk").values()) == pytest.approx(
        sum(one.dur_us for one in found.of("junk")) / len(found.of("junk"))
    )
    assert found.template_us is not None


@pytest.mark.usefixtures("place")
def test_a_window_in_the_middle() -> None:
    found = captured("run", *MOLECULES, "--lp", "exact", "--profile-skip", "3", "--profile-steps", "4")
    check(found, 4)
    samples = {row["sample_id"]: row["token_ids"] for row in Store.open().rows("SELECT * FROM samples")}
    firsts: dict[int, int] = {}
    for step in found.steps:
        for token in step.tokens:
            assert samples[token.sample_id][token.pos] == token.token_id
            firsts.setdefault(token.sample_id, token.pos)
    assert min(firsts.values()) > 0 and found.template_us is None
    assert {step.state for step in found.steps} == {"normal"} and found.example("junk") is None
    assert found.mean_us("junk") == {}


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


def span(name: str, start: float, dur: float, thread: int = 1) -> dict[str, Any]:
    mark = {"ph": "X", "cat": "user_annotation", "name": f"driftscope::{name}", "pid": 1, "tid": thread}
    return {**mark, "ts": 1_000 + start, "dur": dur, "args": {}}


def traced(tmp_path: Path, *events: dict[str, Any], **told: Any) -> Any:
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"traceEvents": list(events)}))
    store = Store(LocalFiles(tmp_path / "own"))
    entry = add_trace(store, path, TraceMetadata(origin="measured", **told))
    return entry, phases_of_steps(entry)


def test_what_is_inside_of_two_phases_belongs_to_the_inner_one(tmp_path: Path) -> None:
    """Marks of another thread and those outside of steps are no part of them."""
    entry, found = traced(
        tmp_path,
        span("template", 0, 50),
        span("step", 100, 40),
        span("decode", 100, 30),
        span("prefill", 105, 10),
        span("sample", 132, 8),
        span("step", 140, 20),
        span("constraint", 145, 0),
        span("sample", 165, 10),
        span("sample", 140, 20, thread=2),
    )
    assert found.template_us == 50
    assert found.parts_us(entry.row["span_us"]) == (60, 100, 0, 15)  # in steps, before, between, after
    one, other = found.steps
    assert one.phases_us == {"forward": 20, "prefill": 10, "other": 2, "sample": 8}
    assert (other.start_us, other.phases_us) == (140, {"other": 20})
    assert found.mean_us() == {"prefill": 5, "forward": 10, "sample": 4, "other": 11}
    assert {step.state for step in found.steps} == {"unknown"} and "no tokens of its passes" in found.why


def test_steps_that_do_not_match_their_marks_are_left_out(tmp_path: Path) -> None:
    rows = [{"step": step, "sample_id": 0, "pos": step, "token_id": 5, "forced": False} for step in range(2)]
    entry, found = traced(tmp_path, span("step", 0, 5), steps=2, written=rows)
    assert "1 marks of 2 steps" in entry.row["warnings"] and not found.steps[0].tokens
    entry, found = traced(tmp_path, span("step", 0, 5), span("step", 5, 5), steps=2, written=rows)
    assert "marks of" not in (entry.row.get("warnings") or "") and [len(step.tokens) for step in found.steps] == [1, 1]
    assert found.steps[0].state == "unknown" and "their places in the texts" in found.why


def test_a_trace_from_elsewhere_has_no_steps(tmp_path: Path) -> None:
    path = tmp_path / "made.json.gz"
    write_trace(path, 1_000)
    store = Store(LocalFiles(tmp_path / "own"))
    found = phases_of_steps(add_trace(store, path))
    assert found.steps == () and "not captured here" in found.why
    assert found.example("normal") is None and found.mean_us() == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308, None])
@pytest.mark.parametrize("column", ["start_us", "dur_us"])
def test_marks_with_times_that_no_trace_has_are_damage(tmp_path: Path, column: str, value: float | None) -> None:
    """The bug: ``list.remove(x): x not in list``."""
    entry, _ = traced(tmp_path, span("step", 0, 9), span("decode", 1, 5))
    with pytest.raises(StoreError, match=rf"trace_marks of .* is damaged: .*its {column} is no"):
        phases_of_steps(crafted(entry, "trace_marks", **{column: value}))


def test_a_mark_whose_end_a_float_does_not_tell_from_its_start_is_left_out(tmp_path: Path) -> None:
    entry, _ = traced(tmp_path, span("step", 0, 9), span("decode", 1, 5))
    (step,) = phases_of_steps(crafted(entry, "trace_marks", start_us=8e15, dur_us=1e-3)).steps
    assert step.phases_us == {"other": 9}
