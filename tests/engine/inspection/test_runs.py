"""The runs that can be looked into."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.inspection.runs import number_format, placeholder_of, run_facts, run_tokenizer, runs_with_samples
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.models.registry import USER_VARIABLE
from engine.records import FIXED4, SHORTEST4, TRIMMED4
from engine.store.entries import Entry, number_format_of
from engine.store.files import Files
from engine.store.memo import computed_once
from engine.store.store import Store
from engine.text.blocks import READ_FORMAT
from engine.text.tokenizer_build import folder_of
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.small_models import write_registry


def test_the_facts_are_the_sheets(store: Store) -> None:
    write_run(store, "one", [sample_row(0)], model_step="early", tokenizer="qwen3", label="mine", lp="exact+cleanup")
    (run,) = runs_with_samples(store)
    assert (run.model, run.tokenizer, run.label, run.lp, run.constraint) == (
        "toy:early",
        "qwen3",
        "mine",
        "exact+cleanup",
        "exact",
    )
    assert (run.has_steps, run.has_blocks, run.samples) == (False, False, 1)
    assert run.name == "toy:early · exact+cleanup · mine"


def test_tokenizer_and_format_come_as_far_as_they_can(store: Store) -> None:
    cases = [("qwen3", "demo-qwen", "final"), (None, "toy", None), ("/no/such/folder", "toy", "one")]
    for number, (tokenizer, alias, step) in enumerate(cases):
        write_run(store, f"run{number}", [sample_row(0)], tokenizer=tokenizer, model_alias=alias, model_step=step)
    named, unsaid, missing = (run_facts(store, f"run{number}") for number in range(3))
    assert run_tokenizer(named)[0] is not None and run_tokenizer(named)[1] == ""
    assert run_tokenizer(unsaid) == (None, "The run does not name its tokenizer.")
    assert run_tokenizer(missing)[0] is None and "not available here" in run_tokenizer(missing)[1]
    assert number_format(named) == TRIMMED4
    assert number_format(missing) == READ_FORMAT
    assert placeholder_of(run_facts(DEMO_STORE, demo_run("qwen", "group-v4.3"))) == "0.000,0.000,0.000"
    assert placeholder_of(named) == DEFAULT_PLACEHOLDER


def test_a_folders_own_tokenizer_is_where_the_registry_says(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    shutil.copy(folder_of("qwen3") / "tokenizer.json", tmp_path / "mine")
    lines = 'alias = "mine"\nstep = "1"\nfolder = "mine"\ntokenizer = "own"'
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, lines)))
    write_run(store, "one", [sample_row(0)], tokenizer="mine", model_alias="mine", model_step="1")
    tokenizer, why = run_tokenizer(run_facts(store, "one"))
    assert tokenizer is not None and (tokenizer.vocab_size, why) == (151_673, "")


def test_the_format_is_that_of_the_runs_plan_or_import_before_the_models(store: Store) -> None:
    demo = run_facts(DEMO_STORE, demo_run("qwen", "group-v4.3"))
    assert demo.form == number_format(demo) == TRIMMED4
    assert number_format(replace(demo, form=FIXED4)) == FIXED4
    (entry,) = (entry for entry in DEMO_STORE.listing().entries if entry.id == demo.run_id)
    sheet = {"form": {"least_decimals": 0, "most_decimals": 4, "most_integer_digits": 3}}
    assert number_format_of(replace(entry, sheet=sheet)) == SHORTEST4
    damages: list[dict[str, Any]] = [{}, {"form": 4}, {"form": {"decimals": 4}}, {"form": {"least_decimals": 9}}]
    for damage in [*damages, {"plan": {"plan": []}}]:
        assert number_format_of(replace(entry, sheet=damage)) is None


def test_entries_count_by_their_files() -> None:
    made = itertools.count()

    @computed_once(8)
    def number(store: Store, entry: Entry, *, most: int = 3) -> int:
        return next(made)

    entry, other = (DEMO_STORE.entry(run.run_id) for run in runs_with_samples(DEMO_STORE)[:2])
    renamed = replace(entry, row={**entry.row, "label": "another"})
    assert [number(store, entry) for store in (DEMO_STORE, Store(entry.files))] == [0, 0]
    assert number(DEMO_STORE, renamed) == 0
    assert [number(DEMO_STORE, entry, most=4), number(DEMO_STORE, other)] == [1, 2]
    changed = {name: replace(part, sha256="0" * 64) for name, part in entry.parts.items()}
    assert number(DEMO_STORE, replace(entry, parts=changed)) == 3
    assert number(DEMO_STORE, replace(entry, files=Files(Path("elsewhere")))) == 4
