"""A generation under the profiler: the window, its marks, the engine's counts of it, the same samples as without."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.decode.steps import Counters, Step, Stop, phase
from engine.profile.capture import Capture
from engine.store.schema import TRACE
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.profile.test_reading import read
from tests.small_models import use_small_model

ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "60", "--seed", "3")
MOLECULES = ("CC=O", "OCC", "CCN")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def test_a_run_keeps_its_trace(place: Path) -> None:
    result = run("run", *MOLECULES, *ASKED, "--lp", "exact", "--profile", "--profile-steps", "5", "--json")
    assert result.code == 0, result.err
    (row,) = json.loads(result.out)
    trace = the_trace()
    assert trace["trace_id"] in result.err and "5 forward passes" in result.err
    assert (trace["run_id"], trace["origin"], trace["counted_by"]) == (row["run_id"], "measured", "engine")
    assert (trace["forward_passes"], trace["label"], trace["source"]) == (5, "small:final, exact", "run --profile")
    found = marks()
    assert found["template"] == 1 and found["prefill"] >= 1
    assert found["sample"] == found["constraint"] == 5  # one of each a pass: the counts are the window's
    assert 0 < trace["forced_tokens"] < trace["tokens"]
    assert set(json.loads(trace["counters"])) == {"prefill_s", "forward_s", "constraint_s", "sampling_s", "decode_s"}
    kept = place / trace["file"]
    assert kept.is_file() and len(read(kept).rows) == trace["events"]
    families = {one["family"] for one in Store.open().rows("SELECT family FROM trace_ops WHERE side = 'host'")}
    assert {"gemm", "attention", "index"} <= families


@pytest.mark.parametrize("backend", ["fast", "hf"])
def test_samples_are_the_same_as_without(backend: str) -> None:
    words = ("generate", *MOLECULES, *ASKED, "--lp", "group-v2.1", "--backend", backend, "--json")
    plain, traced = run(*words), run(*words, "--profile", "--profile-steps", "4")
    assert plain.code == traced.code == 0, traced.err
    ids = [[sample["token_ids"] for sample in json.loads(one.out)["samples"]] for one in (plain, traced)]
    assert ids[0] == ids[1]
    assert the_trace()["source"] == "generate --profile"


def test_plain_generate_is_traced_by_whole_batches() -> None:
    """It runs ahead of its reader, so that only there counts and trace agree."""
    words = ("--backend", "hf", "--lp", "group-v2.1", "--batch-size", "2", "--profile", "--profile-steps", "2")
    result = run("run", *MOLECULES, *ASKED, *words)
    assert result.code == 0, result.err
    trace, found = the_trace(), marks()
    assert trace["samples"] == 2 and found["decode"] == 1
    assert found["sample"] == found["constraint"] == trace["forward_passes"] > 2


def test_a_window_behind_some_passes(tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    words = ("--profile", "--profile-skip", "3", "--profile-steps", "2", "--profile-output", str(path))
    result = run("generate", *MOLECULES, *ASKED, "--lp", "none", *words)
    assert result.code == 0, result.err
    trace, found = the_trace(), marks()
    assert (trace["forward_passes"], trace["tokens"], trace["samples"]) == (2, 6, None)
    assert found == {"decode": 4, "sample": 2, "constraint": 2, "step": 2}  # no template, no prefill
    assert len(json.loads(path.read_text())["traceEvents"]) > trace["events"]


def test_a_window_that_is_never_reached_leaves_no_trace() -> None:
    result = run("generate", "CC=O", *ASKED, "--profile", "--profile-skip", "5000")
    assert result.code == 0 and "no trace: there were at most 5,000 forward passes" in result.err
    assert Store.open().rows("SELECT * FROM traces") == []


def test_a_window_longer_than_all_covers_all() -> None:
    """Of a run: neither what judges samples nor what comes behind is in it."""
    result = run("run", *MOLECULES, *ASKED, "--lp", "group-v2.1", "--profile", "--profile-steps", "1000")
    assert result.code == 0, result.err
    (row,) = Store.open().rows("SELECT tokens, samples, forward_passes FROM runs")
    trace = the_trace()
    assert {name: trace[name] for name in row} == row
    assert marks()["sample"] < 1000


def test_with_and_without_an_lp_compared() -> None:
    for lp in ("none", "exact"):
        run("run", *MOLECULES, *ASKED, "--lp", lp, "--profile", "--profile-steps", "8")
    rows = {row["label"]: row["trace_id"] for row in Store.open().rows("SELECT label, trace_id FROM traces")}
    found = run_json("trace", "compare", rows["small:final, none"], rows["small:final, exact"])
    assert found["work"] == {"control": "host", "test": "host"} and len(found["notes"]) == 1
    assert "24 and 39 tokens" in found["notes"][0]
    figures = {one["name"]: one for one in found["figures"]}
    assert figures["forward_passes"]["control"] == figures["forward_passes"]["test"] == 8
    assert figures["tokens"]["test"] > figures["tokens"]["control"]  # forced tokens take no pass
    assert figures["work_us_a_token"]["ratio"] > 0 and figures["launch_calls"]["control"] is None
    parts = sum(row["by_calls_us"] + row["by_mean_us"] for row in found["families"])
    assert parts == pytest.approx(found["difference_us"])


def test_a_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "copy.json.gz"
    result = run("generate", "CC=O", *ASKED, "--profile", "--profile-steps", "2", "--profile-output", str(path))
    assert result.code == 0 and path.read_bytes()[:2] == b"\x1f\x8b"
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    missing = str(tmp_path / "no" / "folder.json")
    refused = run("generate", "CC=O", *ASKED, "--profile", "--profile-steps", "2", "--profile-output", missing)
    assert refused.code == 2 and "is no folder" in refused.err and "passed" not in refused.out
    refused = run("generate", "CC=O", *ASKED, "--profile", "--profile-steps", "2", "--profile-output", str(tmp_path))
    assert refused.code == 2 and "Is a directory" in refused.err
    assert len(Store.open().found(TRACE).entries) == 2  # the trace itself is kept


def told(*passes: int, counters: Counters) -> Iterator[Step | Stop]:
    """Steps of one sample, so many after each pass."""
    for number, steps in enumerate(passes):
        counters.forward_passes += 1
        for place in range(steps):
            yield counters.count(Step(0, number + place, 1, forced=bool(place)))
    yield Stop(0, "end")


def test_events_pass_through_as_they_are(tmp_path: Path) -> None:
    counters, plain = Counters(), Counters()
    with Capture(tmp_path / "t.json.gz", steps=2) as capture:
        seen = list(capture.watch(told(1, 3, 2, 4, counters=counters), counters))
        again = list(capture.watch(told(1, counters=Counters()), Counters()))  # the window is over
    assert seen == list(told(1, 3, 2, 4, counters=plain)) and len(again) == 2
    captured = capture.captured
    assert captured is not None and captured["forward_passes"] == 2
    assert captured["samples"] is None  # it was still being written


def test_a_failure_leaves_no_profiler_running(tmp_path: Path) -> None:
    import torch

    with pytest.raises(KeyError), Capture(tmp_path / "t.json.gz"):
        raise KeyError
    assert not torch.autograd.profiler._is_profiler_enabled
    assert list(tmp_path.glob("t.json*")) == []


def test_a_phase_without_a_profiler_is_nothing() -> None:
    assert phase("decode") is phase("sample")
