"""The logits processor in plain ``generate``: padding, several answers, beams, reuse, dead ends."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.chem.enriched import decode
from engine.chem.smiles import in_text_order, parse_smiles, read_text_order, same_graph
from engine.errors import ConstraintError
from engine.lp.constraint import Constraint, build_constraint
from engine.lp.processor import ProgramProcessor, logits_processor
from engine.models.loading import model_folder
from engine.models.registry import load_registry
from engine.records import Molecule
from engine.text.tokenizers import load_tokenizer
from tests.small_models import SMALL
from tests.support import ROOT, of_soak

GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
MOLECULES = [parse_smiles(smiles) for smiles in ("C=O", "C[NH3+]", "C")]
TOKENIZER = load_tokenizer("llama3")
ROWS = 128_330
END = 128_001


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    shape = SMALL["llama3"]
    return shape.model(shape.config(ROWS, end=END)).eval()


@functools.cache
def constraint(name: str) -> Constraint:
    return build_constraint(name, TOKENIZER, ROWS)


def processor(name: str = "exact", molecules: Sequence[Molecule] = MOLECULES) -> ProgramProcessor:
    made = constraint(name)
    return ProgramProcessor(made.automaton, list(map(made.compile, molecules)), END)


def prompts(molecules: Sequence[Molecule] = MOLECULES) -> dict[str, torch.Tensor]:
    ids = [TOKENIZER.encode(f"[SMILES]{molecule.smiles}[/SMILES]") for molecule in molecules]
    width = max(map(len, ids))
    return {
        "input_ids": torch.tensor([[END] * (width - len(row)) + row for row in ids]),
        "attention_mask": torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids]),
    }


def answers(model: Any, given: ProgramProcessor, molecules: Sequence[Molecule] = MOLECULES, **how: Any) -> list[str]:
    inputs = prompts(molecules)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        written = model.generate(
            **inputs, logits_processor=[given], pad_token_id=END, eos_token_id=END, **{"max_new_tokens": 200, **how}
        )
    texts = [TOKENIZER.decode(row) for row in written[:, inputs["input_ids"].shape[1] :].tolist()]
    return [text.partition("<|end_of_text|>")[0] for text in texts]


def assert_right(texts: Sequence[str], molecules: Sequence[Molecule]) -> None:
    for text, molecule in zip(texts, molecules, strict=True):
        assert same_graph(decode(text).mol, read_text_order(molecule.smiles)), text


def test_a_random_model_writes_molecules_and_an_instance_is_used_again(model: Any) -> None:
    """Prompts of different length, padded on the left."""
    made = processor()
    texts = answers(model, made, do_sample=True, top_k=5)
    assert_right(texts, MOLECULES)
    assert answers(model, made, do_sample=True, top_k=5) == texts
    assert made.stops == {}


SIZES: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
GROUPED, OLD = SIZES | {"num_key_value_heads": 2}, {"n_layer": 1, "n_head": 4}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("llama", "mistral", "olmo2", "phi3", "qwen2", "starcoder2"), GROUPED),
    **dict.fromkeys(("gemma2", "qwen3"), GROUPED | {"head_dim": 8}),
    "gpt_neox": SIZES,
    "gpt2": OLD | {"n_embd": 32},
    "bloom": OLD | {"hidden_size": 32},
    "opt": SIZES | {"ffn_dim": 64, "word_embed_proj_dim": 32},
}


@of_soak
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_models_of_any_architecture(name: str) -> None:
    torch.manual_seed(0)
    ends = {"bos_token_id": 128_000, "eos_token_id": END, "pad_token_id": END, "tie_word_embeddings": True}
    config = AutoConfig.for_model(name, vocab_size=ROWS, **ends, **ARCHITECTURES[name])
    assert_right(answers(AutoModelForCausalLM.from_config(config).eval(), processor(), do_sample=True), MOLECULES)


@pytest.mark.parametrize("how", [{}, {"num_beams": 2}])
def test_several_answers_a_prompt_and_beams_that_are_replayed(model: Any, how: dict[str, Any]) -> None:
    texts = answers(model, processor(), do_sample=True, num_return_sequences=2, **how)
    assert_right(texts, [molecule for molecule in MOLECULES for _ in range(2)])
    assert how or len(set(texts)) == len(texts)


def test_a_row_out_of_step_is_ended_and_told_and_the_others_go_on() -> None:
    made = processor()
    ids = prompts()["input_ids"]
    token = made(ids, torch.zeros(3, ROWS)).argmax(dim=1, keepdim=True)
    token[1] = 0
    ids = torch.cat([ids, token], dim=1)
    masked = made(ids, torch.zeros(3, ROWS))
    assert made.stops == {1: "desync"}
    assert masked[1].argmax() == END
    assert torch.isfinite(masked[1]).sum() == 1
    assert (masked[[0, 2]].argmax(dim=1) != END).all()


def test_misfits_are_named() -> None:
    with pytest.raises(ConstraintError, match="2 rows do not divide among 3 molecules"):
        processor()(torch.zeros((2, 4), dtype=torch.int64), torch.zeros(2, ROWS))
    with pytest.raises(ConstraintError, match="scores have 7 columns, the constraint was built for 128,330"):
        processor()(prompts()["input_ids"], torch.zeros(3, 7))


def test_the_guides_example_runs_as_it_stands() -> None:
    _, _, section = GUIDE.partition("## In your own code")
    example = section.partition("```python\n")[2].partition("```")[0]
    assert "path/to/checkpoint" in example and len(example.splitlines()) <= 15
    example = example.replace('"CC(=O)Nc1ccc(O)cc1", "CCO"', '"CO", "C"')  # short answers
    folder = model_folder(load_registry().find("demo-qwen"))
    names: dict[str, Any] = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exec(example.replace("path/to/checkpoint", str(folder)), names)
    texts = [text.partition("<|endoftext|>")[0] for text in names["texts"]]
    assert_right(texts, [parse_smiles(text) for text in ("CO", "CO", "C", "C")])
    assert texts[0] != texts[1]


def test_an_lp_by_its_name_takes_smiles_in_the_order_of_the_prompt(model: Any) -> None:
    molecules = [in_text_order(parse_smiles(text), text) for text in ("[NH3+]C", "OC")]
    given = logits_processor("exact", [molecule.smiles for molecule in molecules], "llama3", ROWS)
    texts = answers(model, given, molecules, do_sample=True)
    assert_right(texts, molecules)
    assert [text[:13] for text in texts] == ["[CONFORMER][N", "[CONFORMER][O"]
    with pytest.raises(ConstraintError, match="guarded takes tokens back"):
        logits_processor("guarded", ["OC"], "llama3", ROWS)
