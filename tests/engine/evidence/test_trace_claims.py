"""Claims about a profiled run, where the store has a trace that can be it, and where it has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.evidence.checks.missing import TRACE_FIGURES
from engine.evidence.claims import load_claims
from engine.evidence.verdicts import Verdict, judge, judge_all, why_outdated
from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.reported import publish_reported
from engine.store.files import LocalFiles
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.store.store import Store
from tests.engine.profile.made_traces import Truth, write_trace

CLAIMS = {claim.id: claim for claim in load_claims()}
TRACED = {id_: claim for id_, claim in CLAIMS.items() if claim.arguments.get("needs") == "trace"}
UNTESTABLE = "not testable here"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(LocalFiles(tmp_path / "store"))


def added(store: Store, tmp_path: Path, **told: object) -> Truth:
    """A trace of kernels on an H100, as its file says."""
    path = tmp_path / "made.json.gz"
    truth = write_trace(path, 3_000)
    add_trace(store, path, TraceMetadata(**told))  # type: ignore[arg-type]
    return truth


def judged(store: Store, *ids: str) -> list[Verdict]:
    return judge([CLAIMS[id_] for id_ in ids], store)


def test_a_trace_that_can_be_the_reports_own_is_compared(store: Store, tmp_path: Path) -> None:
    publish_reported(store)  # a text that states figures is no trace
    (missing,) = judged(store, "003-launches-qwen")
    assert (missing.verdict, missing.measured) == (UNTESTABLE, None) and "64 samples on an H100" in missing.reason
    before = judge_all(store)
    truth = added(store, tmp_path, label="the Qwen profile", samples=64)
    assert "stored runs" in str(why_outdated(before, store))
    launches, seconds, whole, llama = judged(
        store, "003-launches-qwen", "003-copy-seconds-qwen", "003-profile-qwen", "003-launches-llama"
    )
    kernels = {name: sum_ for (kind, name, _), sum_ in truth.sums.items() if kind == "kernel" and "direct_copy" in name}
    assert (launches.verdict, launches.source) == ("contradicted", "store")
    assert launches.measured == sum(calls for (kind, *_), (calls, _) in truth.sums.items() if kind == "cuda_runtime")
    copied_ns = sum(ns for (kind, name, _), (_, ns) in truth.sums.items() if kind == "kernel" and "direct_copy" in name)
    assert kernels and seconds.measured == pytest.approx(copied_ns / 1e9, abs=1e-6)
    assert whole.measured is not None and whole.measured > 0
    assert llama.verdict == UNTESTABLE


@pytest.mark.parametrize(
    "told", [{"label": "the Qwen profile"}, {"label": "the Qwen profile", "samples": 32}, {"label": "?", "samples": 64}]
)
def test_a_trace_of_something_else_is_not(store: Store, tmp_path: Path, told: dict[str, object]) -> None:
    added(store, tmp_path, **told)
    assert {one.verdict for one in judge(list(TRACED.values()), store)} <= {UNTESTABLE, "internally inconsistent"}


def test_a_run_without_an_lp_is_another_one(store: Store, tmp_path: Path) -> None:
    said = {
        "origin": "imported",
        "model_family": "Qwen",
        "lp": "none",
        "device": "H100",
        "samples": 64,
        "tokens": 1_000,
    }
    Staging.create(store.home, RUN, "without", said).publish({})
    added(store, tmp_path, run_id="without")
    without, with_lp = judged(store, "000-launches-per-token-none", "003-launches-qwen")
    assert without.measured == pytest.approx(0.6) and with_lp.verdict == UNTESTABLE


def test_every_figure_can_be_asked_for(store: Store) -> None:
    asked = {claim.arguments["figure"] for claim in TRACED.values() if "figure" in claim.arguments}
    assert asked == set(TRACE_FIGURES)
    assert {one.measured for one in judge([one for one in TRACED.values() if one.check == "needs"], store)} == {None}
