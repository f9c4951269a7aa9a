"""log p(C) of samples under the exact LP, against the share of the model's own texts that keep to its language."""

from __future__ import annotations

import math
from pathlib import Path

from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan, Sampling
from engine.figures.statistics import wilson
from engine.inspection.lp_cost import cost_of_run
from engine.inspection.runs import run_facts
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.store.sample_rows import step_rows
from tests.engine.decode.reference import admitted
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.support import of_soak

SMILES = "CO"


@of_soak
def test_the_mass_on_the_language_is_the_share_of_free_texts_in_it(tmp_path: Path) -> None:
    """Unfiltered. Membership is judged on ids by the automaton: a text that only reads alike is none of it."""
    loaded = load_model(load_registry().find("demo-llama", "early"), "cpu", "float32")
    molecule, plan = parse_smiles(SMILES), Plan("exact", sampling=Sampling(), generations=32, seed=1)
    exact = Generation(
        loaded,
        [molecule],
        Plan(plan.lp, sampling=plan.sampling, generations=plan.generations, diagnostics=True, candidates=0),
    )
    samples = exact.run()
    store = store_at(tmp_path)
    steps = [
        row
        for sample in samples
        for row in step_rows(
            sample.sample_id, exact.reader.aligned(molecule, sample.token_ids, sample.forced, {}).rows, sample.diagnoses
        )
    ]
    rows = [sample_row(sample.sample_id, smiles=SMILES, stop_reason=sample.stop_reason) for sample in samples]
    write_run(store, "exact", rows, steps=steps, lp="exact")
    found = cost_of_run(store, run_facts(store, "exact"))
    assert not found.is_bound and found.raw.log_p is not None and found.raw.log_p.ends is not None

    free = Generation(loaded, [molecule], Plan("none", sampling=Sampling(), generations=48, seed=2))
    stored = [exact.stored(0, sample.token_ids) for sample in free.run()]
    inside = admitted(exact.constraint, stored, loaded.tokenizer.end_id or 0)
    low, high = wilson(sum(inside), len(inside))
    assert math.exp(found.raw.log_p.ends[0]) <= high, (found.raw.log_p, sum(inside), len(inside))
    assert math.exp(found.raw.log_p.ends[1]) >= low, (found.raw.log_p, sum(inside), len(inside))
