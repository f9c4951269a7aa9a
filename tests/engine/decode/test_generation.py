"""Molecules in, samples out: each sample is read as its LP made it, cleaned up if asked, and in the order asked for."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import processors
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engine.chem.conformers import reference_conformers
from engine.chem.geometry import pair_bounds
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.body import Body
from engine.decode.generation import Generation
from engine.decode.plan import Context, Plan, Sampling, preset, requests_for
from engine.decode.samples import Reader
from engine.decode.steps import Step, Stop
from engine.errors import ConstraintError, ModelError
from engine.models.loading import LoadedModel, load_model, load_outline, summarise
from engine.models.registry import entry_of_folder, load_registry
from engine.models.shipped import HEAD, ROWS, VOCAB_ROWS, WEIGHTS
from engine.records import TRIMMED4, NumberFormat
from engine.text.tokenizers import load_tokenizer
from tests.engine.chem.posebusters_beside import bust, poses
from tests.engine.decode.reference import made
from tests.small_models import small_folder, write_registry
from tests.support import of_soak

FORM = NumberFormat(1, 2, 1)
MOLECULES = [parse_smiles(smiles) for smiles in ("CC=O", "CCO", "C[NH3+]")]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder: Path = small_folder(tmp_path_factory.mktemp("model"), "qwen3")
    return load_model(entry_of_folder(folder, "qwen3"), "cpu")


def test_samples_come_in_the_order_asked_for_and_before_their_stops(loaded: LoadedModel) -> None:
    generation = Generation(loaded, MOLECULES, Plan(form=FORM, generations=2, batch_size=2))
    seen: dict[int, list[int]] = {}
    for event in generation.events():
        if isinstance(event, Step):
            seen.setdefault(event.sample, []).append(event.token_id)
        else:
            assert isinstance(event, Stop)
            assert generation.samples[-1].sample_id == event.sample
    samples = generation.in_order()
    assert [(sample.smiles, sample.generation) for sample in samples] == [
        (molecule.smiles, number) for molecule in MOLECULES for number in range(2)
    ]
    assert all(list(sample.token_ids) == seen[sample.sample_id] for sample in samples)
    assert all(sample.check.clean and sample.cut_blocks == 0 for sample in samples)
    assert generation.counters.tokens == sum(sample.tokens for sample in samples)
    assert generation.template_s > 0


def test_the_parameters_of_an_lp_reach_it(loaded: LoadedModel) -> None:
    short, usual = (Generation(loaded, MOLECULES, Plan("group-v2.1", placeholder=p)) for p in ("0.0,0.0,0.0", ""))
    assert len(short.requests[0].program) < len(usual.requests[0].program)
    fitted = Generation(loaded, MOLECULES, Plan("adaptive-placeholder"))
    assert fitted.placeholder.count(",") == 2
    assert fitted.placeholder != "0.0000,0.0000,0.0000"
    forms = [NumberFormat(least, 1) for least in (1, 0)]
    fixed, integers = (Generation(loaded, MOLECULES, Plan("adaptive-placeholder", form=form)) for form in forms)
    assert fixed.placeholder.count(".") == 3 > integers.placeholder.count(".")


def test_equal_work(loaded: LoadedModel) -> None:
    plan = Plan("none", form=FORM, equal_work=True, sampling=preset("greedy"))
    exact = Generation(loaded, MOLECULES, replace(plan, lp="exact", equal_work=False)).run()
    assert [sample.tokens for sample in Generation(loaded, MOLECULES, plan).run()] == [s.tokens for s in exact]


def test_a_molecule_without_bounds_is_written_as_under_exact_and_said_to_be(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = "engine.chem.geometry.pair_bounds"
    monkeypatch.setattr(of, lambda mol: pair_bounds(mol) if mol.GetNumAtoms() == 2 else None)
    exact, generation = (Generation(loaded, MOLECULES, Plan(lp, form=FORM)) for lp in ("exact", "guarded"))
    samples = generation.run()
    assert [sample.guarding is None for sample in samples] == [True, True, False]
    assert [sample.token_ids for sample in samples[:2]] == [sample.token_ids for sample in exact.run()[:2]]
    no_bounds = "was written as under exact, without a guard: distance geometry has no bounds for the molecule"
    assert generation.counters.notes == [f"CC=O {no_bounds}", f"CCO {no_bounds}"]


@pytest.mark.parametrize("lp", ["guarded", "shaped"])
def test_molecules_that_no_conformer_saves_are_named(loaded: LoadedModel, lp: str) -> None:
    molecules = [parse_smiles(smiles) for smiles in ("CC.CO", "[CH2]C", "CC=O")]
    engine = poses()
    passes = [all(bust(engine, reference_conformers(molecule, 1)).values()) for molecule in molecules]
    assert passes == [False, False, True]
    generation = Generation(loaded, molecules, Plan(lp, form=FORM))
    parts, radical = generation.counters.notes
    end = f"PoseBusters passes no conformer of it; {lp} acts all the same"
    assert parts == f"CC.CO has 2 parts without a bond between them: {end}"
    assert radical == f"[CH2]C has unpaired electrons: {end}"
    assert all(sample.guarding is not None for sample in generation.run())


def test_a_guard_of_greedy_sampling_throws_nothing_away_and_says_so(loaded: LoadedModel) -> None:
    greedy = Plan("exact", form=FORM, sampling=preset("greedy"))
    exact, guarded = (Generation(loaded, MOLECULES, replace(greedy, lp=lp)) for lp in ("exact", "guarded"))
    samples = guarded.run()
    assert [sample.token_ids for sample in samples] == [sample.token_ids for sample in exact.run()]
    assert guarded.counters.thrown_tokens == 0 and any(s.guarding and s.guarding.unmended for s in samples)
    assert any(note.startswith("greedy sampling redraws nothing") for note in guarded.counters.notes)


def test_plans_that_cannot_be() -> None:
    for wrong in ({"generations": 0}, {"limit": 0}, {"limit": 10**9}, {"backend": "slow"}, {"lp": "x"}):
        with pytest.raises(ConstraintError):
            Plan(**wrong)


def test_a_prompt_beyond_the_context_is_named() -> None:
    tokenizer, constraint = made("exact")
    with pytest.raises(ConstraintError, match=r"the prompt of 'CC=O' has 5 tokens, the model's context 5"):
        requests_for([MOLECULES[1], MOLECULES[0]], constraint, Context(tokenizer, 5))
    (request,) = requests_for([MOLECULES[0]], constraint, Context(tokenizer, 20))
    assert request.limit == 15, "prompt and answer fit the context"


# --- reading ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cleanup", [False, True])
def test_cleanup_mends_the_text_and_leaves_the_ids(cleanup: bool) -> None:
    tokenizer, mended = (
        load_tokenizer("qwen3"),
        "[CONFORMER][C]<0.1,0.2,0.3>[C]<1.5,0.2,0.3>=[O]<2.0,1.0,0.0>[/CONFORMER]",
    )
    junk = mended.replace("0.3", "0.3amen", 1)
    ids = [*tokenizer.encode(junk), tokenizer.end_id or 0]
    reader = Reader(tokenizer, "none", "", TRIMMED4, cleanup)
    sample = reader.read(MOLECULES[0], ids, [False] * len(ids), "end")
    assert (sample.token_ids, sample.raw_text, sample.text) == (tuple(ids), junk, mended if cleanup else junk)
    assert sample.check.passed and sample.check.clean == cleanup and "letters" in sample.blocks[0].kinds


def test_ids_that_the_tokenizer_would_cut_otherwise_are_not_canonical() -> None:
    """The same text in both."""
    tokenizer, text = load_tokenizer("qwen3"), "[CONFORMER][C]<1.25,2.0,0.5>[/CONFORMER]"
    reader, ids = Reader(tokenizer, "grammar", "", TRIMMED4), tokenizer.encode(text)
    others = [id_ for piece in ("[CONFORMER]", "[", "C", "]", "<", text[15:]) for id_ in tokenizer.encode(piece)]
    assert others != list(ids)
    for written, canonical in ((ids, True), (others, False)):
        sample = reader.read(parse_smiles("C"), [*written, tokenizer.end_id or 0], [False] * (len(written) + 1), "end")
        assert (sample.raw_text, sample.canonical) == (text, canonical)


def test_of_what_a_model_wrote_every_conformer_is_checked() -> None:
    tokenizer, good = load_tokenizer("qwen3"), "[CONFORMER][C]<1.0,2.0,0.5>[O]<1.0,2.5,0.5>[/CONFORMER]"
    reader = Reader(tokenizer, "none", "", TRIMMED4)
    for second, clean, reasons in (
        (good, True, ()),
        (good.replace("2.5", "2.5zz"), False, ("conformer 2: block 1 is letters: '1.0,2.5zz,0.5'",)),
    ):
        ids = tokenizer.encode(good + second)
        sample = reader.read(parse_smiles("CO"), ids, [False] * len(ids), "end")
        assert (sample.check.clean, sample.check.conformers, sample.check.why_not_clean) == (clean, 2, reasons)
        assert [(block.conformer, block.atom) for block in sample.blocks] == [(1, 0), (1, 1), (2, 0), (2, 1)]


# --- what a checkpoint learnt -----------------------------------------------------------------------------------
BOS = 128_000


def prompt_of(folder: Path, *lines: str, bos: bool = True) -> tuple[int, ...]:
    """Of a run of the checkpoint in this folder."""
    path = write_registry(folder.parent, "\n".join((f'alias = "l"\nstep = "1"\nfolder = "{folder.name}"', *lines)))
    outline = load_outline(load_registry([path]).find("l"))
    return Generation(outline, [parse_smiles("CO")], Plan("exact", bos=bos)).requests[0].prompt


def test_prompts_begin_as_the_checkpoints_tokenizer_begins_them(tmp_path: Path) -> None:
    """One folder has its own tokenizer.json, which puts BOS before a text."""
    plain, named = tuple(load_tokenizer("llama3").encode("[SMILES]CO[/SMILES]")), 'tokenizer = "llama3"'
    own, other = (small_folder(tmp_path / name, "llama3") for name in ("own", "other"))
    tokenizer = load_tokenizer("llama3").backend.from_str(load_tokenizer("llama3").backend.to_str())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", BOS)]
    )
    tokenizer.save(str(own / "tokenizer.json"))
    assert prompt_of(own, named) == prompt_of(own, 'tokenizer = "own"') == (BOS, *plain)
    assert prompt_of(own, named, bos=False) == plain, "a run from before this was known"
    assert prompt_of(own, named, "bos = false") == prompt_of(other, named) == plain
    assert prompt_of(other, named, "bos = true") == (BOS, *plain)


def test_bos_that_a_tokenizer_has_not(tmp_path: Path) -> None:
    small_folder(tmp_path / "model", "qwen3")
    path = write_registry(tmp_path, 'alias = "q"\nstep = "1"\nfolder = "model"\ntokenizer = "qwen3"\nbos = true')
    with pytest.raises(ModelError, match="prompts of q:1 should begin with BOS"):
        load_model(load_registry([path]).find("q"), "cpu")


@pytest.mark.parametrize(
    ("lp", "chosen", "learnt", "expected"),
    [
        ("group-v4.3", None, "plain", "with-hydrogens"),
        ("group-v4.3", "plain", "with-hydrogens", "plain"),
        ("truncating", None, "with-hydrogens", "with-hydrogens"),
        ("exact", "with-hydrogens", "plain", "with-hydrogens"),
    ],
)
def test_descriptors_are_the_lps_else_the_checkpoints(
    loaded: LoadedModel, lp: str, chosen: Any, learnt: Any, expected: str
) -> None:
    plan = Plan(lp, descriptors=chosen)
    assert plan.descriptors_of(learnt) == expected
    if learnt == "plain":
        (sample,) = Generation(loaded, [parse_smiles("CO")], plan).run()
        assert ("[OH]<" in sample.text) == (expected == "with-hydrogens")
        assert sample.check.same_graph


# --- the embedded models --------------------------------------------------------------------------------------------
MODELS = ("demo-qwen", "demo-llama", "demo-bins")


@pytest.fixture(scope="module")
def demo(request: pytest.FixtureRequest) -> LoadedModel:
    return load_model(load_registry().find(request.param), "cpu", "float32")


@of_soak
@pytest.mark.parametrize("demo", MODELS, indirect=True)
def test_the_exact_lp_never_writes_a_malformed_block(demo: LoadedModel) -> None:
    """Every text is clean and re-tokenises to the ids that were sampled, however hot the sampling."""
    molecules = list(map(parse_smiles, load_run_set(30)))
    for sampling in (preset("qwen3"), Sampling(1.0), Sampling(1.5)):
        for sample in Generation(demo, molecules, Plan("exact", sampling=sampling, seed=7)).run():
            assert sample.check.clean, sample.text
            assert {kind for block in sample.blocks for kind in block.kinds} == {"exact"}
            encoded = demo.tokenizer.backend.encode(sample.text, add_special_tokens=False)
            assert encoded.ids == list(sample.token_ids[:-1])


# --- checkpoints in the forms in which people have them: each loads, and fast writes what hf writes -------------------
TOKENIZERS = {"qwen3": "qwen3", "llama": "llama3"}
KINDS: dict[str, Any] = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}
ROPE = {"rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 64}
DYNAMIC = {"rope_theta": 100.0, "factor": 4.0, "rope_type": "dynamic"}
LLAMA3 = {**ROPE, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "sharded, bf16": ("qwen3", {"num_hidden_layers": 2, "dtype": "bfloat16"}),
    "untied, llama3 rope": ("llama", {"tie_word_embeddings": False, "rope_parameters": LLAMA3}),
    "biased, yarn rope": ("qwen3", {"attention_bias": True, "rope_parameters": {**ROPE, "rope_type": "yarn"}}),
    "biased, dynamic rope": ("llama", {"attention_bias": True, "mlp_bias": True, "rope_parameters": DYNAMIC}),
    "own head beside a tied flag": ("qwen3", {"tie_word_embeddings": False}),
    "tied, saved as the head": ("llama", {}),
}


def checkpoint(family: str, **changes: Any) -> Any:
    """Norms away from one, biases away from nothing, heads wider than their share of the width."""
    end = load_tokenizer(TOKENIZERS[family]).end_id
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    widths = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 256}
    ids = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": end}
    vocabulary = {"vocab_size": VOCAB_ROWS[TOKENIZERS[family]], "tie_word_embeddings": True}
    given = {**heads, **widths, **ids, **vocabulary, **changes}
    config, model = KINDS[family]
    torch.manual_seed(0)
    built = model(config(**given)).eval()
    for weight in built.parameters():
        torch.nn.init.normal_(weight, 0.3 if weight.ndim == 1 else 0.0, 0.3)
    return built.to(getattr(torch, changes.get("dtype", "float32")))


@pytest.mark.parametrize("form", FORMS)
def test_fast_writes_what_hf_writes(tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture) -> None:
    family, changes = FORMS[form]
    model, is_flagged = checkpoint(family, **changes), form.startswith("own head")
    model.config.tie_word_embeddings |= is_flagged
    model.save_pretrained(tmp_path, **({"max_shard_size": "4KB"} if form.startswith("sharded") else {}))
    if form == "tied, saved as the head":
        weights = load_file(tmp_path / WEIGHTS)
        save_file({HEAD if name == ROWS else name: value for name, value in weights.items()}, tmp_path / WEIGHTS)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (form.startswith("sharded"))
    entry = entry_of_folder(tmp_path, TOKENIZERS[family])
    summary = summarise(entry)
    assert (summary["problem"], bool(summary["warnings"])) == ("", is_flagged)
    with caplog.at_level(logging.WARNING, "engine"):
        loaded = load_model(entry, "cpu")
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("engine")]
    assert messages == summary["warnings"]
    assert loaded.dtype == torch.float32
    weights = loaded.model.state_dict()
    assert all(torch.equal(value.float(), weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(weights[ROWS], weights[HEAD]) == loaded.model.config.tie_word_embeddings
    plan = Plan("group-v2.1", sampling=preset("qwen3"), batch_size=2, limit=40)
    fast, hf = (Generation(loaded, MOLECULES[::2], replace(plan, backend=backend)).run() for backend in ("fast", "hf"))
    assert [sample.token_ids for sample in fast] == [sample.token_ids for sample in hf]
    assert len({sample.token_ids for sample in fast}) == len(MOLECULES[::2])


LONGROPE = {**ROPE, "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}


@pytest.mark.parametrize(
    ("family", "changes", "complaint"),
    [
        ("llama", {"rope_parameters": LONGROPE}, "longrope"),
        ("llama", {"hidden_act": "gelu"}, "activation is 'gelu'"),
        ("qwen3", {"layer_types": ["sliding_attention"]}, "sliding window"),
    ],
)
def test_what_the_fast_backend_would_compute_wrongly_is_refused(
    family: str, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ModelError, match=f"{complaint}.*Use the backend hf"):
        Body(checkpoint(family, vocab_size=50, eos_token_id=0, pad_token_id=0, **changes), 64)
