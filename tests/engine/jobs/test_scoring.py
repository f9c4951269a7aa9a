"""Asking a model about stored answers: the same rows as a run keeps, what a cut cost, and a run scored once more."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.decode import scoring
from engine.decode.diagnosis import CHANCES
from engine.decode.plan import Plan
from engine.errors import RunError
from engine.inspection.lp_cost import cost_of_run
from engine.inspection.runs import run_facts
from engine.jobs.plan import ModelChoice
from engine.jobs.scoring import Question, costs_work, score_run, score_work
from engine.jobs.service import Job, Service, Work
from engine.records import SHORTEST4
from engine.store.entries import write_part
from engine.store.files import Files
from engine.store.store import Store
from tests.cli import run as run_command
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.jobs.small_runs import choice
from tests.engine.jobs.test_lane import lane_of, run
from tests.engine.store.stored_runs import assert_whole, folder_of, store_at
from tests.service_harness import ended
from tests.small_models import use_small_model


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


def test_scoring_gives_the_rows_that_a_run_keeps(service: Service, folder: Path, tmp_path: Path) -> None:
    store = stored(service, folder, tmp_path, "group-v2.1")
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


def test_costs_come_for_the_blocks_that_were_asked_about(service: Service, folder: Path, tmp_path: Path) -> None:
    store = stored(service, folder, tmp_path, "group-v2.1")
    costs = answered(service, costs_work(question(store, choice(folder)), [0, 1, 99]))
    assert set(costs) <= {0, 1}
    for found in costs.values():
        assert found.needed is not None and found.needed > 0
        assert found.digits_lost is not None and found.digits_lost >= 0


# --- a whole run ----------------------------------------------------------------------------------------------------

KEPT_CHANCES = "ln_p, ln_p_tempered, ln_mass, ln_q"
HOW = ("--model", "small", "--threads", "1", "--max-new-tokens", "40", "--n", "2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("store"), "exact")


def written(place: Path, lp: str) -> Path:
    """Two molecules of two samples, of which one keeps its steps: of a molecule that is not in canonical order."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_model(patch)
        asked = ("OC", "C", "--order", "written", *HOW, "--lp", lp, "--keep-steps", "1")
        result = run_command("run", *asked, "--store", str(place))
    assert result.code == 0, result.err
    return place


@pytest.fixture
def store(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    use_small_model(monkeypatch)
    return Store(Files(shutil.copytree(made, tmp_path / "store")))


def only(store: Store) -> str:
    (row,) = store.rows("SELECT run_id FROM runs")
    return str(row["run_id"])


def test_what_is_scored_is_what_was_kept_and_stays(store: Store) -> None:
    run_id = only(store)
    kept = store.rows(f"SELECT {KEPT_CHANCES}, top_k FROM steps ORDER BY pos")
    first = cost_of_run(store, run_facts(store, run_id))
    assert first.samples == 1
    forget(store, run_id)
    store = store.snapshot()
    assert cost_of_run(store, run_facts(store, run_id)).samples == 0
    scored = score_run(store, run_id)
    store = store.snapshot()
    assert (scored.samples, scored.cost.samples, scored.is_stored) == (4, 4, True)
    assert scored.tokens == store.rows("SELECT sum(tokens)::INT AS tokens FROM samples")[0]["tokens"]
    again = store.rows(f"SELECT {KEPT_CHANCES}, top_k FROM steps WHERE sample_id = 0 ORDER BY pos")
    assert [row["top_k"] for row in again] == [row["top_k"] for row in kept]
    for old, new in zip(kept, again, strict=True):
        for name in KEPT_CHANCES.split(", "):
            assert new[name] == pytest.approx(old[name], abs=1e-4)
    (mine,) = first.each
    assert scored.cost.each[0]["blocks"] == pytest.approx(mine["blocks"], abs=1e-3)
    assert_whole(store)
    second = score_run(store, run_id)
    assert (second.samples, second.cost) == (0, scored.cost)


def forget(store: Store, run_id: str) -> None:
    """As from before schema version 5, but for ``thrown_by`` of the samples: steps without chances."""
    entry = store.entry(run_id)
    rows = pq.read_table(entry.path("steps"), partitioning=None).drop_columns(KEPT_CHANCES.split(", "))
    part = write_part(entry.files, entry.folder, "steps-old.parquet", rows)
    path = folder_of(store, run_id) / "run.json"
    sheet = json.loads(path.read_text())
    path.write_text(json.dumps({**sheet, "schema": 4, "tables": {**sheet["tables"], "steps": asdict(part)}}))


def test_a_run_that_does_not_say_how_it_was_sampled_is_refused(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    write_run(store, "made-up", [sample_row(0, token_ids=[1, 2], forced=[False, False])])
    with pytest.raises(RunError, match="how it was sampled"):
        score_run(store, "made-up")


def test_tokens_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    """The bug: a null among a sample's ids ended in a traceback."""
    write_run(store_at(tmp_path), "made-up", [sample_row(0, token_ids=[1, None])])
    result = run_command("cost-of-lp", "made-up", "--store", str(tmp_path))
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith("driftscope: the tokens of sample 0 of made-up lack an id")


def test_a_run_of_other_weights_is_refused(store: Store) -> None:
    run_id = only(store)
    path = folder_of(store, run_id) / "run.json"
    sheet = json.loads(path.read_text())
    path.write_text(json.dumps({**sheet, "row": {**sheet["row"], "weights": "0" * 64}}))
    with pytest.raises(RunError, match="other weights"):
        score_run(store.snapshot(), run_id)
