"""The embedded models on both backends: the same tokens, under every LP, greedy and drawn, in batches of mixed size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import BACKENDS, Plan, preset
from engine.lp_records import LPS
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from tests.support import sized

MODELS = ("demo-qwen", "demo-llama")
WRITTEN = [lp for lp in LPS if lp not in ("group-v3.4", "group-v3.8", "group-v3.9", "group-v4.0")]  # tables like v4.3's
CASES = sized([("exact", "qwen3"), ("group-v2.1", "greedy")], [(lp, "qwen3") for lp in WRITTEN])


@pytest.fixture(scope="module")
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    return load_model(load_registry().find(request.param), "cpu", "float32")


@pytest.mark.soak
@pytest.mark.parametrize("loaded", MODELS, indirect=True)
@pytest.mark.parametrize(("lp", "sampling"), CASES)
def test_the_fast_loop_writes_what_generate_writes(loaded: LoadedModel, lp: str, sampling: str) -> None:
    molecules = list(map(parse_smiles, load_run_set(200)[::50]))
    plan = Plan(lp, sampling=preset(sampling), batch_size=3, limit=sized(24, 80))
    fast, hf = (Generation(loaded, molecules, replace(plan, backend=backend)).run() for backend in BACKENDS)
    assert [sample.token_ids for sample in fast] == [sample.token_ids for sample in hf]
    assert [sample.forced for sample in fast] == [sample.forced for sample in hf]
    assert [sample.stop_reason for sample in fast] == [sample.stop_reason for sample in hf]


@pytest.mark.soak
@pytest.mark.parametrize("loaded", MODELS, indirect=True)
def test_the_exact_lp_never_writes_a_malformed_block(loaded: LoadedModel) -> None:
    """Every text is clean and re-tokenises to the ids that were sampled, however hot the sampling."""
    molecules = list(map(parse_smiles, load_run_set(sized(4, 30))))
    for name in ("qwen3", "p1.0_t1.4"):
        for sample in Generation(loaded, molecules, Plan("exact", sampling=preset(name), seed=7)).run():
            assert sample.check.clean, sample.text
            assert {kind for block in sample.blocks for kind in block.kinds} == {"exact"}
            assert loaded.tokenizer.encode(sample.text) == list(sample.token_ids[:-1])
