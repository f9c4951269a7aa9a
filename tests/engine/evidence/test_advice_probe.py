"""A probe writes a run for each LP, keeps what is finished when it is stopped, and refuses what tells nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import DriftscopeError
from engine.evidence.advice.probe import LABEL, Probe, passing_store, probe
from engine.evidence.advisor import AdviceRequest, advise
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.runner.run import Run
from engine.store.schema import RUN
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from tests.small_models import use_small_model
from tests.support import of_soak

LPS = ("none", "exact")
QUICK = ("group-v4.3", "exact")
"""A model of random weights writes to its limit without an LP."""


@pytest.fixture(scope="module")
def early() -> LoadedModel:
    return load_model(load_registry().find("demo-llama:early"), "cpu")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedModel:
    use_small_model(monkeypatch)
    return load_model(load_registry().find("small"), "cpu")


@of_soak
def test_a_probe_of_a_real_model(store: Store, early: LoadedModel) -> None:
    """Four molecules are too few to advise from, and show all the same what the early model does without an LP."""
    steps = list(probe(store.home, early, Probe(4, LPS)))
    kept = [step for step in steps if step.is_kept]
    assert [(step.lp, step.number, step.lps) for step in kept] == [("none", 0, 2), ("exact", 1, 2)]
    entries = store.found().entries
    assert [entry.id for entry in entries] == [step.progress.run_id for step in kept]
    assert {entry.row["label"] for entry in entries} == {LABEL}
    advice = advise(store, "demo-llama:early", AdviceRequest(lps=LPS))
    none, exact = (advice.measured.figures(lp) for lp in LPS)
    assert none.clean < exact.clean == advice.measured.molecules == 4
    assert none.seconds_a_sample.value > exact.seconds_a_sample.value
    assert advice.decision.verdict == "too little" and "These runs share 4 molecules" in advice.sentence
    assert advice.reports.says == "use an LP"


def test_its_runs_are_of_the_setting_of_ordinary_ones(store: Store, small: LoadedModel) -> None:
    list(probe(store.home, small, Probe(4, QUICK, sampling="greedy", batch_size=4)))
    for entry in store.found().entries:
        plan = entry.sheet["plan"]["plan"]
        assert plan["form"] == {"least_decimals": 1, "most_decimals": 4, "most_integer_digits": 3}
        assert (entry.row["sampling"], entry.row["batch_size"]) == ("greedy", 4)


def test_what_is_stopped_loses_the_lp_at_work(
    store: Store, small: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Run.progress

    def stopped(self: Run) -> object:
        if self.plan.plan.lp == "exact":
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(Run, "progress", stopped)
    with pytest.raises(KeyboardInterrupt):
        list(probe(store.home, small, Probe(4, QUICK)))
    assert [entry.row["lp"] for entry in store.found().entries] == ["group-v4.3"]
    assert unfinished_ids(store.home, RUN) == []


def test_a_probe_that_is_closed_early_leaves_nothing_unfinished(store: Store, small: LoadedModel) -> None:
    with closing(probe(store.home, small, Probe(4, QUICK))) as steps:
        next(steps)
        assert len(unfinished_ids(store.home, RUN)) == 1
    assert unfinished_ids(store.home, RUN) == [] and store.found().entries == ()


def test_a_passing_store_goes_with_its_block() -> None:
    with passing_store() as passing:
        folder = Path(passing.home.where)
        assert folder.is_dir()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("molecules", "more", "said"),
    [
        (3, {}, "a probe of 3 molecules is too small"),
        (8, {"lps": ("exact",)}, "a probe of one LP"),
        (8, {"lps": ("exact", "v3.10")}, "there is no LP 'v3.10'"),
        (8, {"sampling": "hot"}, "there is no sampling preset 'hot'"),
        (8, {"backend": "slow"}, "there is no backend 'slow'"),
    ],
)
def test_what_tells_nothing_is_refused_before_a_model_is_asked(molecules: int, more: dict[str, str], said: str) -> None:
    with pytest.raises(DriftscopeError) as caught:
        Probe(molecules, **{"lps": LPS, **more})  # type: ignore[arg-type]
    assert said in str(caught.value)
