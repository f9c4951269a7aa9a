"""A stored run scored once more: the same rows as it kept. What a page asks of one sample, the pages' tests ask."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.decode.generation import Generation
from engine.errors import RunError, StoreError
from engine.inspection.lp_cost import cost_of_run
from engine.inspection.runs import run_facts
from engine.inspection.sample import inspect_sample
from engine.jobs import scoring
from engine.jobs.scoring import explain_run, question_of, score_run
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.questions import ask
from engine.store.entries import write_part
from engine.store.files import Files
from engine.store.schema import BLOCKS
from engine.store.staging import rewrite_run
from engine.store.store import DEMO, Store
from tests.cli import run as run_command
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.store.stored_runs import assert_whole, folder_of, store_at
from tests.small_models import use_small_model

KEPT_CHANCES = "ln_p, ln_p_tempered, ln_mass, ln_q"
HOW = ("--model", "small", "--threads", "1", "--max-new-tokens", "40", "--n", "2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("store"), "exact")


def written(folder: Path, lp: str) -> Path:
    """Two molecules of two samples, of which one keeps its steps: of a molecule that is not in canonical order."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_model(patch)
        arguments = ("OC", "C", "--order", "written", *HOW, "--lp", lp, "--keep-steps", "1")
        result = run_command("run", *arguments, "--store", str(folder))
    assert result.code == 0, result.err
    return folder


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


def test_what_explains_a_run_stands_for_no_figure_over_samples(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "AT_ONCE", 1)
    told: list[tuple[int, int]] = []
    run_id = only(store)
    cost, overruled = cost_of_run(store, run_facts(store, run_id)), ask(store, "drift_lp", [run_id]).tables["main"]
    before = store.rows("SELECT sample_id, pos, p_raw, ln_q, top_k FROM steps ORDER BY ALL")
    explained = explain_run(store, run_id, worst=3, progress=lambda done, samples: told.append((done, samples)))
    assert told[-explained.samples :] == [(done + 1, explained.samples) for done in range(explained.samples)]
    store = store.snapshot()
    steps = store.rows("SELECT sample_id, pos, p_raw, ln_q, top_k FROM steps ORDER BY ALL")
    assert [row for row in steps if row["ln_q"] is not None] == before and explained.samples in (2, 3)
    assert len({row["sample_id"] for row in steps}) == 1 + explained.samples
    assert {len(row["top_k"]) for row in steps if row["ln_q"] is None} == {5}
    assert cost_of_run(store, run_facts(store, run_id)) == cost
    assert ask(store, "drift_lp", [run_id]).tables["main"] == overruled
    assert_whole(store)
    again = explain_run(store, run_id, worst=3)
    assert (again.samples, again.continued, again.entry.parts) == (0, 0, explained.entry.parts)


def test_cut_blocks_are_continued_and_counted_by_what_the_model_would_have_written(tmp_path: Path) -> None:
    """Two samples of a run that ships forget their continuations, and get them back."""
    run_id = demo_run("llama", "group-v2.1")
    shutil.copytree(DEMO / f"runs/run_id={run_id}", tmp_path / f"runs/run_id={run_id}")
    store = store_at(tmp_path)
    entry = store.entry(run_id)
    shipped = entry.read("blocks")
    rows = shipped.to_pylist()
    for row in rows:
        if row["sample_id"] < 2 and row["continued_text"]:
            row |= {"continued_text": None, "kinds": ["cut"]}
    rewrite_run(entry, {"blocks": BLOCKS.rows(rows)}, {"cut_blocks": 99})
    result = run_command("explain", run_id, "--worst", "0", "--threads", "1", "--json", "--store", str(tmp_path))
    answer, again = result.document, store.snapshot().entry(run_id)
    assert answer["blocks_continued"] >= 10 and answer["samples_scored"] == 0
    assert again.read("blocks") == shipped
    assert again.row["cut_blocks"] == entry.row["cut_blocks"] == answer["cut_blocks"]
    continued = [row for row in shipped.to_pylist() if row["continued_text"]]
    assert all(("cut" in row["kinds"]) == (row["text"] != row["continued_text"]) for row in continued)
    assert all(row["continued_text"].startswith(row["text"]) for row in continued)


def forget(store: Store, run_id: str) -> None:
    """As from before schema version 5, but for ``thrown_by`` of the samples: steps without chances."""
    entry = store.entry(run_id)
    rows = pq.read_table(entry.path("steps"), partitioning=None).drop_columns(KEPT_CHANCES.split(", "))
    part = write_part(entry.files, entry.folder, "steps-old.parquet", rows)
    path = folder_of(store, run_id) / "run.json"
    sheet = json.loads(path.read_text())
    path.write_text(json.dumps({**sheet, "schema": 4, "tables": {**sheet["tables"], "steps": asdict(part)}}))


def test_what_is_left_of_damaged_steps_is_not_written_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: steps of a damaged file were passed over, and the run was then written anew without them."""
    run_id = only(store)
    table = Store.table

    def without_steps(self: Store, sql: str, *more: Any, **named: Any) -> Any:
        rows = table(self, sql, *more, **named)
        return rows.slice(0, 0) if sql == scoring._STEPS else rows

    monkeypatch.setattr(Store, "table", without_steps)
    for work in (explain_run, score_run):
        with pytest.raises(StoreError, match=r"cannot be read: 0 of"):
            work(store, run_id)


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


def test_a_sample_under_a_servers_lp_is_scored_without_a_mask() -> None:
    (run_id,) = (entry.id for entry in DEMO_STORE.listing().entries if entry.row.get("lp") == "grammar")
    seen = inspect_sample(DEMO_STORE, run_id, 3)
    question = question_of(seen, load_registry().find("demo-qwen"))
    generation = Generation(load_model(load_registry().find("demo-qwen"), "cpu"), [seen.molecule], question.plan)
    (scored,) = generation.diagnosed([SimpleNamespace(sample_id=0, token_ids=question.token_ids)])  # type: ignore[list-item]
    assert len(scored) == len(question.token_ids) > 100
    assert all(0 < one.p_raw <= 1 and one.p_lp == pytest.approx(one.p_raw, rel=1e-3) for one in scored)
