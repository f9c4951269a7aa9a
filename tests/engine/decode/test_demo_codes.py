"""The embedded model of codes: it writes texts of codes, and its molecules get places from its decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation, conformers_of
from engine.decode.plan import Plan, preset
from engine.errors import ConstraintError
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import begin
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.paths import DATA
from engine.records import CodeFormat
from engine.store.files import Files

MOLECULES = ["CC=O", "CC(C)O", "OCCO", "c1ccccc1"]


@pytest.fixture(scope="module")
def loaded() -> Any:
    return load_model(load_registry().find("demo-codes"), "cpu", "float32")


def generated(loaded: Any, lp: str, backend: Any = "auto") -> Generation:
    plan = Plan(lp=lp, backend=backend, sampling=preset("qwen3"), seed=1)
    made = Generation(loaded, [parse_smiles(smiles) for smiles in MOLECULES], plan)
    list(made.run())
    return made


def test_it_ships_small_with_its_decoder(loaded: Any) -> None:
    numbers = loaded.entry.numbers
    assert isinstance(numbers, CodeFormat) and (numbers.codes, numbers.decoder) == (256, "demo-codes")
    files = [DATA / "models" / f"demo-codes-{name}.safetensors" for name in ("final", "decoder")]
    assert sum(file.stat().st_size for file in files) <= 1_500_000


@pytest.mark.parametrize("lp", ["none", "exact", "group-conformers"])
def test_its_texts_are_of_codes(loaded: Any, lp: str) -> None:
    made = generated(loaded, lp)
    for sample in made.in_order():
        assert sample.check.passed and sample.check.clean, sample.text
        assert sample.canonical and {block.kinds for block in sample.blocks} == {("exact",)}
        assert all(int(block.text) < 256 and block.x is None for block in sample.blocks)
    assert len(conformers_of(made, "strict")) == len(MOLECULES)  # in space, by its decoder


def test_exact_writes_the_same_by_both_backends_and_forces_most(loaded: Any) -> None:
    fast, plain = generated(loaded, "exact"), generated(loaded, "exact", "hf")
    for one, other in zip(fast.in_order(), plain.in_order(), strict=True):
        assert one.token_ids == other.token_ids
        assert one.tokens - one.forced_tokens == len(one.blocks)


def test_lps_of_numbers_are_refused(loaded: Any) -> None:
    with pytest.raises(ConstraintError, match="needs places while it writes"):
        generated(loaded, "shaped")


def test_a_run_that_takes_the_models_codes_says_which_they_are(loaded: Any, tmp_path: Path) -> None:
    """As Live begins one: without a form of its own."""
    plan = RunPlan(ModelChoice("demo-codes:final"), Plan(lp="exact"), group=1)
    staging = begin(Files(tmp_path), loaded, [parse_smiles("CC=O")], plan)
    assert RunPlan.read(staging.sheet["plan"]).plan.form == loaded.entry.numbers
