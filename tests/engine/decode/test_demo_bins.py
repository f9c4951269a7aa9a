"""The embedded model of bins: what it writes under the LPs is judged by the reader of texts, RDKit and PoseBusters."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from engine.chem.enriched import as_decimals, prompt_of
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.lp.constraint import LpParameters
from engine.lp.processor import logits_processor
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import GROUP_UNIFORM
from engine.text.check import answer_of
from tests.support import of_soak, sized


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    made = load_model(load_registry().find("demo-bins"), "cpu", "float32")
    assert made.entry.numbers == GROUP_UNIFORM
    return made


@of_soak
@pytest.mark.parametrize(("lp", "least"), [("none", 0.0), ("shaped", 0.9)])
def test_held_out_molecules_are_written(loaded: LoadedModel, lp: str, least: float) -> None:
    molecules = list(map(parse_smiles, load_run_set(sized(6, 32))))
    generation = Generation(loaded, molecules, Plan(lp, seed=1))
    usable = clean = 0
    for sample in generation.run():
        text = as_decimals(sample.text, GROUP_UNIFORM, keep=True)
        verdict = judge_answer(answer_of(text), generation.molecule_of(sample.sample_id).mol)
        clean += sample.check.clean
        usable += verdict.is_usable(sample.check.clean)
    assert clean >= 0.9 * len(molecules) and usable >= least * len(molecules)


@of_soak
def test_backends_batches_and_the_processor_agree(loaded: LoadedModel) -> None:
    """The fast loop as plain generate, alone as in a batch; and the processor's texts are molecules too."""
    molecules = list(map(parse_smiles, load_run_set(4)))
    ways = [{"backend": "fast"}, {"backend": "hf"}, {"backend": "fast", "batch_size": 1}]
    written = [
        [sample.token_ids for sample in Generation(loaded, molecules, Plan("exact", seed=3, **way)).run()]  # type: ignore[arg-type]
        for way in ways
    ]
    assert written[0] == written[1] == written[2]
    smiles, model = molecules[0].smiles, cast("Any", loaded.model)
    parameters = LpParameters(form=GROUP_UNIFORM)
    for lp in ("exact", "shaped"):
        given = logits_processor(lp, [smiles], "qwen3-bins", loaded.vocab_rows, parameters)
        ids = torch.tensor([loaded.tokenizer.encode(prompt_of(smiles))])
        with torch.random.fork_rng():
            torch.manual_seed(0)
            answer = model.generate(ids, logits_processor=[given], max_new_tokens=300, do_sample=True)
        text = loaded.tokenizer.decode(answer[0, ids.shape[1] : -1].tolist())
        verdict = judge_answer(answer_of(as_decimals(text, GROUP_UNIFORM)), molecules[0].mol)
        assert lp == "exact" or verdict.is_usable(clean=True)
        assert (
            loaded.tokenizer.backend.encode(text, add_special_tokens=False).ids == answer[0, ids.shape[1] : -1].tolist()
        )
