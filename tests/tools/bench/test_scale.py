"""A run of some hundred samples with the stub of ``bench.scale`` for the model."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode import generation
from engine.decode.plan import Plan
from engine.decode.samples import Sample
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import begin
from engine.models.loading import load_outline
from engine.models.registry import load_registry
from engine.store.files import Files
from tests.engine.jobs.small_runs import opened
from tests.engine.jobs.stub_backend import stubbed
from tools.bench.scale import MODEL

EACH, GROUP = 10, 20


def test_what_is_written_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "make_backend", None)  # set by the stub, put back in the end
    loaded = load_outline(load_registry().find(MODEL))
    chosen = list(map(parse_smiles, load_run_set()[:12]))
    stubbed(loaded, chosen)
    plan = RunPlan(ModelChoice(MODEL), Plan(lp="exact", batch_size=GROUP), group=GROUP)
    run = opened(begin(Files(tmp_path), loaded, [molecule for molecule in chosen for _ in range(EACH)], plan), loaded)
    gc.collect()
    before = {id(thing) for thing in gc.get_objects() if type(thing) is Sample}  # of other tests' caches
    held = []
    for progress in run.progress():
        if progress.done % GROUP == 0:
            gc.collect()
            held.append(sum(type(thing) is Sample and id(thing) not in before for thing in gc.get_objects()))
    assert len(held) == 12 * EACH // GROUP and min(held) >= GROUP and max(held) <= 2 * GROUP
