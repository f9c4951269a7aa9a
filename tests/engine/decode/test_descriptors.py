"""What a checkpoint learnt and an LP forces: how atoms are written, whether prompts begin with BOS, and older plans."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import processors

from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.errors import ModelError, RegistryError
from engine.models.loading import load_model
from engine.models.registry import ModelEntry, load_registry, read_registry
from engine.text.tokenizers import load_tokenizer
from tests.small_models import small_folder, use_small_model, write_registry

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
    return Generation(load_model(entry, "cpu"), [parse_smiles("CO")], Plan("exact", bos=bos)).requests[0].prompt


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


@pytest.mark.parametrize("line", ['descriptors = "long"', "descriptors = 1", 'bos = "yes"', "bos = 1"])
def test_a_wrong_key_of_the_registry_is_named(tmp_path: Path, line: str) -> None:
    path = write_registry(tmp_path, f'alias = "q"\nstep = "1"\nfolder = "m"\ntokenizer = "qwen3"\n{line}')
    with pytest.raises(RegistryError, match=f"`{line.split()[0]}` is"):
        read_registry(path)


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
def test_descriptors_are_the_lps_else_the_checkpoints(monkeypatch, lp, chosen, learnt, expected) -> None:
    use_small_model(monkeypatch)
    plan = Plan(lp, descriptors=chosen)
    assert plan.descriptors_of(learnt) == expected
    if learnt == "plain":
        (sample,) = Generation(load_model(load_registry().find("small"), "cpu"), [parse_smiles("CO")], plan).run()
        assert ("[OH]<" in sample.text) == (expected == "with-hydrogens")
        assert sample.check.same_graph
