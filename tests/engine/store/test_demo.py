"""The demo store that ships: whole, small, of these models and this schema, and what it was said to hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.decode.log_recorder import ENGINE
from engine.inspection.judging import judge_run
from engine.inspection.molecules import sample_table
from engine.models.registry import load_registry
from engine.store.entries import Entry, has_former_counts
from engine.store.files import Files
from engine.store.schema import LOGIT_LOG, SAMPLES
from engine.store.store import DEMO, Store, damaged_parts
from tests.support import ROOT, sized

MOST_BYTES = 8_900_000
STORE = Store(Files(DEMO))


@pytest.fixture(scope="module")
def measured() -> list[Entry]:
    """By our own loop."""
    entries = [entry for entry in STORE.listing().entries if entry.row["origin"] == "measured"]
    return [entry for entry in entries if entry.row["backend"] == "fast"]


def test_other_engines_wrote_the_same_molecules(measured: list[Entry]) -> None:
    """When this fails, `make demo-served` is due."""
    others = [entry for entry in STORE.listing().entries if entry.row.get("backend") in ("hf", "server")]
    pairs = {(entry.row["model_alias"], entry.row["lp"], entry.row["backend"]): entry for entry in others}
    assert set(pairs) == {
        ("demo-qwen", *pair) for pair in (("exact", "server"), ("grammar", "server"), ("exact", "hf"))
    }
    assert len(others) == 3
    asked = "SELECT list(smiles ORDER BY sample_id) AS smiles FROM samples WHERE run_id = $run"
    (ours,) = STORE.rows(asked, {"run": measured[0].id})
    for (_, lp, backend), entry in pairs.items():
        row = entry.row
        assert (row["samples"], row["molecules"], row["judged"], row["clean"]) == (64, 64, 64, 64)
        assert (row["device"] == "server") == (backend == "server") and row["weights"] == measured[0].row["weights"]
        assert STORE.rows(asked, {"run": entry.id}) == [ours]
        canonical = entry.read("samples", ["canonical"])["canonical"].to_pylist()
        assert all(canonical) if lp == "exact" else None not in canonical


def test_it_is_whole_and_small(measured: list[Entry]) -> None:
    listing = STORE.listing()
    assert listing.damages == ()
    assert [damage for entry in listing.entries for damage in damaged_parts(entry)] == []
    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) < MOST_BYTES
    assert not (DEMO / "staging").exists()


def test_each_model_ran_under_each_lp(measured: list[Entry]) -> None:
    pairs = {(entry.row["model_alias"], entry.row["lp"]) for entry in measured}
    lps = ("none", "group-v2.1", "group-v4.3", "exact", "guarded", "shaped")
    of_bins = {("demo-bins", lp) for lp in ("none", "group-v2.1", "exact", "shaped")}
    assert pairs == {(model, lp) for model in ("demo-qwen", "demo-llama") for lp in lps} | of_bins
    plain = [entry for entry in measured if entry.row["descriptors"] == "plain" and entry.row["lp"] == "group-v4.3"]
    assert len(measured) == 17 and [entry.row["model_alias"] for entry in plain] == ["demo-qwen"]
    for entry in measured:
        assert (entry.row["samples"], entry.row["molecules"], entry.row["model_step"]) == (64, 64, "final")
        assert (entry.row["resumed"], entry.row["backend"], entry.row["device"]) == (0, "fast", "cpu")


def test_it_is_of_the_models_and_the_schema_that_ship(measured: list[Entry]) -> None:
    """When this fails, `make demo` is due."""
    registry = load_registry()
    for entry in measured:
        model = registry.find(entry.row["model_alias"], entry.row["model_step"])
        assert entry.row["weights"] == model.sha256
        assert entry.version >= 3  # later ones brought columns of guarded runs alone
        assert entry.row["judged"] == entry.row["samples"]
    (row,) = STORE.rows("SELECT list(DISTINCT smiles) AS smiles FROM samples")
    assert sorted(row["smiles"]) == sorted((ROOT / "data" / "heldout.smi").read_text().split()[:64])


def test_sixteen_samples_of_each_keep_their_steps(measured: list[Entry]) -> None:
    counts = "count(DISTINCT sample_id) AS samples, count(*) - count(p_raw) AS unknown"
    ours = "ln_q IS NOT NULL AND list_contains($runs, run_id)"
    runs = {"runs": [entry.id for entry in measured]}
    rows = STORE.rows(f"SELECT {counts} FROM steps WHERE {ours} GROUP BY run_id", runs)
    assert [tuple(row.values()) for row in rows] == [(16, 0)] * len(measured)


def test_the_worst_samples_of_each_say_why(measured: list[Entry]) -> None:
    """Drift shows them first: without their steps a sentence could not say what the model wanted."""
    for entry in measured:
        if entry.row["lp"] == "shaped":  # what it struck is known of the samples that kept their steps alone
            continue
        if entry.row["model_alias"] == "demo-bins":  # no block of these is damaged: there is nothing to say
            continue
        worst = sample_table(STORE, [entry.id], is_worst_first=True).slice(0, 4)
        assert worst["has_steps"].to_pylist() == [True] * 4, entry.id
        sql = "SELECT count(*) AS steps FROM steps WHERE run_id = $run AND sample_id = $sample AND len(top_k) = 5"
        (steps,) = STORE.rows(sql, {"run": entry.id, "sample": worst["sample_id"][0].as_py()})
        assert steps["steps"] == worst["tokens"][0].as_py(), entry.id


def test_its_counts_are_of_todays_rules_and_its_cuts_have_lost_something(measured: list[Entry]) -> None:
    """When this fails, `python -m engine explain RUN --store data/demo` is due."""
    assert [entry.id for entry in measured if has_former_counts(entry)] == []
    rows = STORE.rows("SELECT text, kinds, continued_text FROM blocks WHERE list_contains(kinds, 'cut')")
    assert len(rows) == sum(entry.row["cut_blocks"] for entry in measured)
    assert [row for row in rows if row["text"] == row["continued_text"]] == []
    lost_nothing = [row for row in rows if row["kinds"] == ["cut"] and len(row["text"].rpartition(".")[2]) >= 4]
    assert lost_nothing == [], "a z with all its decimals is complete"


@pytest.mark.soak
@pytest.mark.parametrize("number", sized([8], range(17)))
def test_its_verdicts_are_of_todays_rules(number: int, measured: list[Entry], tmp_path: Path) -> None:
    """When this fails, `judge RUN`, `verify --recount` and `lost RUN --again` are due, each with --store data/demo."""
    entry = measured[number]
    judged = judge_run(Store(Files(tmp_path), (Files(DEMO),)), entry.id, workers=1)
    names = [name for name in SAMPLES.names if name != "canonical"]  # these runs are of before it was stored
    assert SAMPLES.rows(judged.rows).select(names) == entry.read("samples", names)
    assert {name: entry.row.get(name) for name in judged.columns} == judged.columns


def test_its_story_is_the_one_that_is_told(measured: list[Entry]) -> None:
    """Under the exact LP nothing is damaged; under those that count positions most texts are."""
    for entry in measured:
        row = entry.row
        if row["lp"] in ("exact", "guarded", "shaped") or row["model_alias"] == "demo-bins":  # bins do not drift
            assert row["clean"] == row["samples"] and row["bad_blocks"] == row["cut_blocks"] == 0
        elif row["lp"] != "none":
            assert row["clean"] < 0.1 * row["samples"] and row["bad_blocks"] > 0
        assert json.loads(row["versions"])["torch"]


MOST_LOG_BYTES = 400_000
"""Of our own: other engines' lie beside them."""


def ours() -> list[Entry]:
    return [entry for entry in STORE.listing(LOGIT_LOG).entries if entry.row["engine"] == ENGINE]


def test_both_models_logged_sixteen_texts() -> None:
    """When this fails, `make demo-logs` is due."""
    assert {entry.row["model"] for entry in ours()} == {"demo-qwen:final", "demo-llama:final"}
    for entry in ours():
        row = entry.row
        assert (row["origin"], row["precision"], row["flagged_values"]) == ("measured", "f32", 0)
        assert row["values_logged"] == 8 * row["entries"]
        (count,) = STORE.table("SELECT count(DISTINCT sequence) AS texts FROM logit_entries", of=[entry.id]).to_pylist()
        assert count["texts"] == 16
        steps = STORE.table("SELECT sequence, token_idx FROM logit_entries ORDER BY entry", of=[entry.id]).to_pylist()
        assert steps == sorted(steps, key=lambda step: (step["sequence"], step["token_idx"])), "one after the other"


def test_its_logs_are_small() -> None:
    assert sum(part.bytes for entry in ours() for part in entry.parts.values()) < MOST_LOG_BYTES
