"""Molecules in, samples out: each sample is read as its LP made it, cleaned up if asked, and in the order asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import processors

from engine.chem.geometry import pair_bounds
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import BACKENDS, Plan, preset, requests_for
from engine.decode.samples import Reader
from engine.decode.steps import Step, Stop
from engine.errors import ConstraintError, ModelError
from engine.lp_records import LPS
from engine.models.loading import LoadedModel, load_model, load_outline
from engine.models.registry import ModelEntry, entry_of_folder, load_registry
from engine.records import TRIMMED4, NumberFormat
from engine.text.tokenizers import load_tokenizer
from tests.engine.decode.reference import made
from tests.small_models import small_folder, write_registry
from tests.support import sized

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
    fixed, integers = (
        Generation(loaded, MOLECULES, Plan("adaptive-placeholder", form=NumberFormat(least, 1))) for least in (1, 0)
    )
    assert fixed.placeholder.count(".") == 3 > integers.placeholder.count(".")


def test_equal_work(loaded: LoadedModel) -> None:
    plan = Plan("none", form=FORM, equal_work=True, sampling=preset("greedy"))
    exact = Generation(loaded, MOLECULES, replace(plan, lp="exact", equal_work=False)).run()
    assert [sample.tokens for sample in Generation(loaded, MOLECULES, plan).run()] == [one.tokens for one in exact]


def test_a_molecule_without_bounds_is_written_as_under_exact_and_said_to_be(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = "engine.chem.geometry.pair_bounds"
    monkeypatch.setattr(of, lambda mol: pair_bounds(mol) if mol.GetNumAtoms() == 2 else None)
    exact, generation = (Generation(loaded, MOLECULES, Plan(lp, form=FORM)) for lp in ("exact", "guarded"))
    samples = generation.run()
    assert [sample.guarding is None for sample in samples] == [True, True, False]
    assert [one.token_ids for one in samples[:2]] == [one.token_ids for one in exact.run()[:2]]
    no_bounds = "was written as under exact, without a guard: distance geometry has no bounds for the molecule"
    assert generation.counters.notes == [f"CC=O {no_bounds}", f"CCO {no_bounds}"]


def test_a_guard_of_greedy_sampling_throws_nothing_away_and_says_so(loaded: LoadedModel) -> None:
    greedy = Plan("exact", form=FORM, sampling=preset("greedy"))
    exact, guarded = (Generation(loaded, MOLECULES, replace(greedy, lp=lp)) for lp in ("exact", "guarded"))
    samples = guarded.run()
    assert [one.token_ids for one in samples] == [one.token_ids for one in exact.run()]
    assert guarded.counters.thrown_tokens == 0 and any(one.guarding and one.guarding.unmended for one in samples)
    assert any(note.startswith("greedy sampling redraws nothing") for note in guarded.counters.notes)


def test_plans_that_cannot_be() -> None:
    for wrong in ({"generations": 0}, {"limit": 0}, {"limit": 10**9}, {"backend": "slow"}, {"lp": "x"}):
        with pytest.raises(ConstraintError):
            Plan(**wrong)


def test_a_prompt_beyond_the_context_is_named() -> None:
    tokenizer, constraint = made("exact")
    with pytest.raises(ConstraintError, match=r"the prompt of 'CC=O' has 5 tokens, the model's context 5"):
        requests_for([MOLECULES[1], MOLECULES[0]], constraint, tokenizer, positions=5)
    (request,) = requests_for([MOLECULES[0]], constraint, tokenizer, positions=20)
    assert request.limit == 15, "prompt and answer fit the context"


# --- reading ------------------------------------------------------------------------------------------------------

JUNK = "[CONFORMER][C]<0.1,0.2,0.3amen>[C]<1.5,0.2,0.3>=[O]<2.0,1.0,0.0>[/CONFORMER]"


@pytest.mark.parametrize("cleanup", [False, True])
def test_cleanup_mends_the_text_and_leaves_the_ids(cleanup: bool) -> None:
    tokenizer = load_tokenizer("qwen3")
    ids = [*tokenizer.encode(JUNK), tokenizer.end_id or 0]
    reader = Reader(tokenizer, "none", "", TRIMMED4, cleanup)
    sample = reader.read(MOLECULES[0], ids, [False] * len(ids), "end")
    assert sample.token_ids == tuple(ids)
    assert sample.raw_text == JUNK
    assert sample.text == (JUNK.replace("amen", "") if cleanup else JUNK)
    assert sample.check.passed
    assert sample.check.clean == cleanup
    assert "letters" in sample.blocks[0].kinds


# --- what a checkpoint learnt -----------------------------------------------------------------------------------

BOS = 128_000


def llama(folder: Path, *lines: str, own: bool = True) -> ModelEntry:
    """A LLaMA checkpoint whose own tokenizer.json puts BOS before a text."""
    small_folder(folder / "model", "llama3")
    if own:
        tokenizer = load_tokenizer("llama3").backend.from_str(load_tokenizer("llama3").backend.to_str())
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", BOS)]
        )
        tokenizer.save(str(folder / "model" / "tokenizer.json"))
    path = write_registry(folder, "\n".join(('alias = "l"\nstep = "1"\nfolder = "model"', *lines)))
    return load_registry([path]).find("l")


def prompt_of(entry: ModelEntry, *, bos: bool = True) -> tuple[int, ...]:
    return Generation(load_outline(entry), [parse_smiles("CO")], Plan("exact", bos=bos)).requests[0].prompt


def test_prompts_begin_as_the_checkpoints_tokenizer_begins_them(tmp_path: Path) -> None:
    plain = tuple(load_tokenizer("llama3").encode("[SMILES]CO[/SMILES]"))
    entry = llama(tmp_path, 'tokenizer = "llama3"')
    assert prompt_of(entry) == (BOS, *plain)
    assert prompt_of(entry, bos=False) == plain, "a run from before this was known"
    assert prompt_of(llama(tmp_path, 'tokenizer = "own"')) == (BOS, *plain)
    assert prompt_of(llama(tmp_path, 'tokenizer = "llama3"', "bos = false")) == plain
    (tmp_path / "other").mkdir()
    assert prompt_of(llama(tmp_path / "other", 'tokenizer = "llama3"', own=False)) == plain
    assert prompt_of(llama(tmp_path / "other", 'tokenizer = "llama3"', "bos = true", own=False)) == (BOS, *plain)


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
        ("exact", None, "plain", "plain"),
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


# --- the embedded models on both backends ---------------------------------------------------------------------------

MODELS = ("demo-qwen", "demo-llama")
WRITTEN = [lp for lp in LPS if lp not in ("group-v3.4", "group-v3.8", "group-v3.9", "group-v4.0")]  # tables like v4.3's
CASES = sized([("exact", "qwen3"), ("group-v2.1", "greedy")], [(lp, "qwen3") for lp in WRITTEN])


@pytest.fixture(scope="module")
def demo(request: pytest.FixtureRequest) -> LoadedModel:
    return load_model(load_registry().find(request.param), "cpu", "float32")


@pytest.mark.soak
@pytest.mark.parametrize("demo", MODELS, indirect=True)
@pytest.mark.parametrize(("lp", "sampling"), CASES)
def test_the_fast_loop_writes_what_generate_writes(demo: LoadedModel, lp: str, sampling: str) -> None:
    molecules = list(map(parse_smiles, load_run_set(200)[::50]))
    plan = Plan(lp, sampling=preset(sampling), batch_size=3, limit=sized(24, 80))
    fast, hf = (Generation(demo, molecules, replace(plan, backend=backend)).run() for backend in BACKENDS)
    assert [sample.token_ids for sample in fast] == [sample.token_ids for sample in hf]
    assert [sample.forced for sample in fast] == [sample.forced for sample in hf]
    assert [sample.stop_reason for sample in fast] == [sample.stop_reason for sample in hf]


@pytest.mark.soak
@pytest.mark.parametrize("demo", MODELS, indirect=True)
def test_the_exact_lp_never_writes_a_malformed_block(demo: LoadedModel) -> None:
    """Every text is clean and re-tokenises to the ids that were sampled, however hot the sampling."""
    molecules = list(map(parse_smiles, load_run_set(sized(4, 30))))
    for name in ("qwen3", "p1.0_t1.4"):
        for sample in Generation(demo, molecules, Plan("exact", sampling=preset(name), seed=7)).run():
            assert sample.check.clean, sample.text
            assert {kind for block in sample.blocks for kind in block.kinds} == {"exact"}
            assert demo.tokenizer.encode(sample.text) == list(sample.token_ids[:-1])
