"""Asking a model about stored answers: the same rows as a run keeps, other models, and what a cut cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.decode import scoring
from engine.decode.diagnosis import CHANCES
from engine.decode.plan import Plan
from engine.jobs.plan import ModelChoice
from engine.jobs.scoring import Question, costs_work, score_work
from engine.jobs.service import Job, Service, Work
from engine.records import SHORTEST4
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.jobs.small_runs import choice
from tests.engine.jobs.test_lane import lane_of, run
from tests.service_harness import ended
from tests.small_models import small_folder


def stored(service: Service, folder: Path, place: Path, lp: str) -> Store:
    run(service, lane_of(folder, 2, plan={"lp": lp}, keep_steps=1), place)
    return Store(Files(place))


def answered(service: Service, work: Work[Any]) -> Any:
    job = service.submit("a", work)
    assert ended(job) == "done"
    return job.result


def question(store: Store, model: ModelChoice, **more: Any) -> Question:
    (run,) = store.rows("SELECT * FROM runs")
    row = store.rows("SELECT * FROM samples WHERE sample_id = 0")[0]
    said = {
        "tokenizer": run["tokenizer"],
        "smiles": row["smiles"],
        "plan": Plan(run["lp"], run["placeholder"] or "", SHORTEST4),
        "token_ids": tuple(row["token_ids"]),
        "forced": tuple(row["forced"]),
    }
    return Question(model, **{**said, **more})


@pytest.mark.parametrize("lp", ["none", "group-v2.1", "exact"])
def test_scoring_gives_the_rows_that_a_run_keeps(service: Service, folder: Path, tmp_path: Path, lp: str) -> None:
    store = stored(service, folder, tmp_path, lp)
    thought = answered(service, score_work(question(store, choice(folder))))
    chances = ", ".join(CHANCES)  # how a token was drawn is no matter of a model that is asked later
    kept = store.rows(f"SELECT * EXCLUDE (run_id, {chances}) FROM steps ORDER BY pos")
    assert list(thought) == list(range(len(kept))) and len(kept) > 20
    for scored, theirs in zip(thought.values(), kept, strict=True):
        mine = {name: value for name, value in scored.items() if name not in CHANCES}
        assert {key: value for key, value in mine.items() if not isinstance(value, float | list)} == {
            key: value for key, value in theirs.items() if not isinstance(value, float | list)
        }
        assert mine["p_raw"] == pytest.approx(theirs["p_raw"], abs=1e-5)
        assert mine["allowed_mass"] == pytest.approx(theirs["allowed_mass"], abs=1e-5)


def test_a_stop_is_asked_about_between_the_tokens_of_a_sample(
    service: Service, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight long answers were scored in one go, 24 s of a model's head."""
    turns, cancelled = Counter[str](), Job.cancelled

    def counted(job: Job[Any]) -> bool:
        turns[job.note] += 1
        return cancelled(job)

    monkeypatch.setattr(Job, "cancelled", counted)
    monkeypatch.setattr(scoring, "MOST_SCORES", 1)  # a token at a time
    asked = question(stored(service, folder, tmp_path, "none"), choice(folder))
    ended(service.submit("a", score_work(asked)))
    assert min(turns["checking the result"], turns["scoring the sample"]) >= len(asked.token_ids) > 20


def test_another_model_of_the_tokenizer_thinks_otherwise(service: Service, folder: Path, tmp_path: Path) -> None:
    store = stored(service, folder, tmp_path / "store", "exact")
    (tmp_path / "other").mkdir()
    other = small_folder(tmp_path / "other")
    own = answered(service, score_work(question(store, choice(folder))))
    thought = answered(service, score_work(question(store, choice(other))))
    assert [row["token_id"] for row in thought.values()] == [row["token_id"] for row in own.values()]


def test_a_model_of_another_tokenizer_is_refused_by_name(service: Service, folder: Path, tmp_path: Path) -> None:
    store = stored(service, folder, tmp_path, "exact")
    job = service.submit("a", score_work(question(store, choice(folder), tokenizer="llama3")))
    assert ended(job) == "failed"
    assert job.poll().error.startswith("the sample was written with the tokenizer llama3, but ")


def test_costs_come_for_the_blocks_that_were_asked_about(service: Service, folder: Path, tmp_path: Path) -> None:
    store = stored(service, folder, tmp_path, "group-v2.1")
    costs = answered(service, costs_work(question(store, choice(folder)), [0, 1, 99]))
    assert set(costs) <= {0, 1}
    for found in costs.values():
        assert found.needed is not None and found.needed > 0
        assert found.digits_lost is not None and found.digits_lost >= 0
