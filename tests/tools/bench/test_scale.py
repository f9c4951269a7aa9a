"""A run of some hundred samples with the stub of ``bench.scale`` for the model, and a clock that counts its tokens."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode import generation
from engine.decode.plan import Plan
from engine.decode.samples import Sample
from engine.decode.steps import Step
from engine.jobs import run as run_module
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import Run, begin
from engine.models.loading import load_outline
from engine.models.registry import load_registry
from engine.records import Molecule
from engine.store.files import Files
from tests.engine.jobs.small_runs import opened
from tests.engine.jobs.stub_backend import StubBackend, stubbed
from tools.bench.scale import MODEL

EACH, GROUP = 10, 20
TOKENS_A_SECOND = 20_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Goes on by each token of the stub, and by nothing else."""
    time = SimpleNamespace(now=0.0)
    run = StubBackend.run

    def paced(self: StubBackend, *given: Any) -> Iterator[Any]:
        for event in run(self, *given):
            time.now += isinstance(event, Step) / TOKENS_A_SECOND
            yield event

    monkeypatch.setattr(StubBackend, "run", paced)
    monkeypatch.setattr(run_module, "time", SimpleNamespace(perf_counter=lambda: time.now))
    monkeypatch.setattr(generation, "make_backend", None)  # set by the stub, put back in the end
    return time


def begun(place: Path, molecules: int) -> Run:
    loaded = load_outline(load_registry().find(MODEL))
    chosen: list[Molecule] = list(map(parse_smiles, load_run_set()[:molecules]))
    stubbed(loaded, chosen)
    plan = RunPlan(ModelChoice(MODEL), Plan(lp="exact", batch_size=GROUP), group=GROUP)
    asked = [molecule for molecule in chosen for _ in range(EACH)]
    staging = begin(Files(place), loaded, asked, plan)
    return opened(staging, loaded)


def test_after_a_twentieth_the_time_left_is_known_within_a_fifth(clock: SimpleNamespace, tmp_path: Path) -> None:
    run = begun(tmp_path, 30)
    told = [(progress, clock.now) for progress in run.progress()]
    first, at = next((progress, at) for progress, at in told if progress.done * 20 >= progress.samples)
    assert first.seconds_left == pytest.approx(told[-1][1] - at, rel=0.2)


def test_what_is_written_is_not_held(clock: SimpleNamespace, tmp_path: Path) -> None:
    run = begun(tmp_path, 12)
    gc.collect()
    before = {id(thing) for thing in gc.get_objects() if type(thing) is Sample}  # of other tests' caches
    held = []
    for progress in run.progress():
        if progress.done % GROUP == 0:
            gc.collect()
            held.append(sum(type(thing) is Sample and id(thing) not in before for thing in gc.get_objects()))
    assert len(held) == 12 * EACH // GROUP and min(held) >= GROUP and max(held) <= 2 * GROUP
