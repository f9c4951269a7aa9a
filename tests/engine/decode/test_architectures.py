"""Any causal model of transformers, under the backend that runs it: eight architectures with random weights, each next
to plain ``generate`` and a plain forward pass of transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LogitsProcessorList, PreTrainedTokenizerFast

from engine.chem.enriched import prompt_of
from engine.chem.smiles import parse_smiles
from engine.decode.continuation import continue_blocks, cuts_of
from engine.decode.generation import Generation, make_backend
from engine.decode.plan import Plan, preset
from engine.decode.scoring import PlainReader, reader_of, score
from engine.errors import ModelError
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import Run, begin
from engine.lp.constraint import LpParameters
from engine.lp.exact import ExactConstraint
from engine.lp.processor import logits_processor
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import ModelEntry, entry_of_folder
from engine.records import NumberFormat
from engine.store.files import Files
from engine.store.schema import SAMPLES, STEPS
from tests.tiny_checkpoints import ARCHITECTURES, tiny_checkpoint

FORM = NumberFormat(1, 3, 1)
SMILES = ("CC=O", "C[C@H](N)C(=O)[O-]", "c1cc[nH]c1")
MOLECULES = [parse_smiles(smiles) for smiles in SMILES]
BY_HF = {"gemma3_text", "mistral", "smollm3", "phi3", "gpt_neox", "olmo2", "qwen3_moe"}
ATOL = 1e-4


@pytest.fixture(scope="module", params=ARCHITECTURES)
def entry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModelEntry:
    return entry_of_folder(tiny_checkpoint(tmp_path_factory.mktemp("made") / request.param, request.param))


@pytest.fixture(scope="module")
def loaded(entry: ModelEntry) -> LoadedModel:
    return load_model(entry, "cpu")


@pytest.fixture(scope="module")
def plain(entry: ModelEntry) -> Any:
    """The model as transformers loads it, which knows nothing of this project."""
    return AutoModelForCausalLM.from_pretrained(str(entry.folder)).eval()


def kind_of(entry: ModelEntry) -> str:
    assert entry.folder is not None
    return entry.folder.name


def test_it_writes_what_plain_generate_writes_under_the_projects_processor(
    entry: ModelEntry, loaded: LoadedModel, plain: Any
) -> None:
    plan = Plan("exact", form=FORM, sampling=preset("greedy"), backend="hf")
    ours = Generation(loaded, MOLECULES, plan).run()
    assert all(sample.check.clean and sample.stop_reason == "end" for sample in ours)
    folder = str(entry.folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    prompts = [tokenizer(prompt_of(mol.smiles), add_special_tokens=False)["input_ids"] for mol in MOLECULES]
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    processor = logits_processor(
        "exact", [mol.smiles for mol in MOLECULES], folder, loaded.vocab_rows, LpParameters(form=FORM)
    )
    end = loaded.tokenizer.end_id
    written = plain.generate(
        input_ids=ids, attention_mask=mask, logits_processor=LogitsProcessorList([processor]), do_sample=False,
        max_new_tokens=max(sample.tokens for sample in ours), eos_token_id=end, pad_token_id=end,
    )  # fmt: skip
    for row, sample in zip(written[:, longest:].tolist(), ours, strict=True):
        assert row[: sample.tokens] == list(sample.token_ids)
        again = tokenizer(sample.text, add_special_tokens=False)["input_ids"]
        assert again == list(sample.token_ids[:-1])
        decoded = tokenizer.decode(sample.token_ids[:-1], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert decoded == sample.text


def test_its_scores_are_those_of_a_plain_forward_pass(loaded: LoadedModel, plain: Any) -> None:
    """Once while it writes, and once more of stored ids."""
    plan = Plan("exact", form=FORM, sampling=preset("p1.0_t1.0"), diagnostics=True, backend="hf", seed=3)
    generation = Generation(loaded, MOLECULES, plan)
    samples = generation.run()
    stored = [generation.stored(sample.sample_id, sample.token_ids) for sample in samples]
    reader, size = reader_of(loaded), loaded.tokenizer.vocab_size
    assert isinstance(reader, PlainReader) == bool(loaded.why_not_fast)
    again = score(PlainReader(loaded.model, loaded.positions), generation.constraint, stored, size)
    for sample, of_ids, scored, by_reader in zip(
        samples, stored, again, score(reader, generation.constraint, stored, size), strict=True
    ):
        with torch.inference_mode():
            logits = plain(input_ids=torch.tensor([of_ids.read])).logits[0, len(of_ids.prompt) - 1 :, :size]
        expected = logits.float().softmax(dim=-1)[range(sample.tokens), list(sample.token_ids)]
        for diagnoses in (sample.diagnoses, scored.diagnoses, by_reader.diagnoses):
            assert torch.allclose(torch.tensor([each.p_raw for each in diagnoses]), expected, atol=ATOL)


def test_auto_takes_the_backend_that_runs_it_and_fast_says_why_it_cannot(
    entry: ModelEntry, loaded: LoadedModel
) -> None:
    plan = Plan("exact", form=FORM, sampling=preset("p1.0_t1.0"))
    generation = Generation(loaded, MOLECULES[:1], plan)
    samples = generation.run()
    if kind_of(entry) in BY_HF:
        assert (generation.plan.backend, generation.counters.notes) == (
            "hf",
            [f"written by the backend hf: {loaded.why_not_fast}"],
        )
        with pytest.raises(ModelError, match=r"the backend fast cannot run .*: .*\. Use the backend hf") as caught:
            Generation(loaded, MOLECULES[:1], replace(plan, backend="fast"))
        assert "\n" not in str(caught.value)
    else:
        assert (generation.plan.backend, generation.counters.notes, loaded.why_not_fast) == ("fast", [], "")
        by_hf = Generation(loaded, MOLECULES[:1], replace(plan, backend="hf")).run()
        assert [sample.token_ids for sample in by_hf] == [sample.token_ids for sample in samples]


def test_a_run_of_it_is_stored_scored_and_judged(entry: ModelEntry, loaded: LoadedModel, tmp_path: Path) -> None:
    plan = Plan("exact", form=FORM, batch_size=2)
    choice = ModelChoice(folder=str(entry.folder), device="cpu")
    staging = begin(Files(tmp_path), loaded, MOLECULES, RunPlan(choice, plan, keep_steps=3, judge=True))
    run = Run(staging, loaded, MOLECULES, RunPlan.read(staging.sheet["plan"]))
    for _ in run.progress():
        pass
    stored = run.publish()
    expected = {"backend": "hf" if kind_of(entry) in BY_HF else "fast", "samples": 3, "clean": 3, "judged": 3}
    assert {name: stored.row[name] for name in expected} == expected
    assert stored.row["model_family"] == loaded.family
    assert bool(stored.row.get("notes")) == (kind_of(entry) in BY_HF)
    tokens = sum(map(len, stored.read(SAMPLES.name)["token_ids"].to_pylist()))
    assert stored.read(STEPS.name).num_rows == tokens


def test_a_cut_block_is_continued(loaded: LoadedModel) -> None:
    generation = Generation(loaded, MOLECULES[:1], Plan("group-v2.1", "0.0,0.0,0.0", form=FORM))
    sample = generation.run()[0]
    stored = generation.stored(0, sample.token_ids)
    exact = ExactConstraint(loaded.tokenizer, FORM, loaded.vocab_rows)
    cuts = cuts_of(generation.constraint, generation.molecules[0], stored, range(3))
    assert len(cuts) == 3
    both = [
        continue_blocks(make_backend(loaded, exact, name), exact, loaded.tokenizer, cuts) for name in ("auto", "hf")
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("kind", "changes"), [("mistral", {"sliding_window": None}), ("mistral", {"sliding_window": 4096}), ("qwen2", {})]
)
def test_fast_runs_models_that_differ_from_its_own_in_biases_alone(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    loaded = load_model(entry_of_folder(tiny_checkpoint(tmp_path / kind, kind, **changes)), "cpu")
    assert loaded.why_not_fast == ""
    for bias in (weight for name, weight in loaded.model.named_parameters() if name.endswith("bias")):
        torch.nn.init.normal_(bias)
    plan = Plan("group-v2.1", form=FORM, sampling=preset("p1.0_t1.0"), diagnostics=True, limit=60)
    fast, hf = (Generation(loaded, MOLECULES, replace(plan, backend=name)).run() for name in ("fast", "hf"))
    assert [sample.token_ids for sample in fast] == [sample.token_ids for sample in hf]
    for left, right in zip(fast, hf, strict=True):
        expected = torch.tensor([each.p_raw for each in right.diagnoses])
        assert torch.allclose(torch.tensor([each.p_raw for each in left.diagnoses]), expected, atol=ATOL)
