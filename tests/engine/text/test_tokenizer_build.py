"""The cache of the two tokenizers' Hugging Face form: built at once, damaged, vanished, unwritable."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from engine.errors import AssetError
from engine.text import tokenizer_build
from engine.text.tokenizers import load_tokenizer
from tests.small_tokenizers import small_byte_level, small_metaspace

NAMES = ("qwen3", "llama3")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of its own under ``tmp_path``, and a small tokenizer in place of the slow building: which were built."""
    made = small_byte_level()
    recipe = tokenizer_build.RECIPES["llama3"]
    size = made.get_vocab_size() - len(recipe.special) - len(recipe.tags)
    monkeypatch.setitem(tokenizer_build.RECIPES, "llama3", dataclasses.replace(recipe, base_size=size))
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    names: list[str] = []

    def assemble(name: str) -> Tokenizer:
        names.append(name)
        return made

    monkeypatch.setattr(tokenizer_build, "_assemble", assemble)
    return names


@pytest.mark.parametrize("damage", ["truncated", "other", "missing", "folder"])
def test_a_damaged_cache_is_built_again(built: list[str], damage: str) -> None:
    tokenizer_build.built_in("llama3")
    folder = tokenizer_build.folder_of("llama3")
    file = folder / "tokenizer.json"
    whole = file.read_bytes()
    file.unlink()
    if damage == "truncated":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "other":
        small_metaspace().save(str(file))
    elif damage == "folder":
        file.mkdir()
    tokenizer_build.built_in("llama3")
    assert built == ["llama3", "llama3"]
    assert file.read_bytes() == whole
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]
    tokenizer_build.built_in("llama3")
    assert len(built) == 2


def test_a_cache_that_vanishes_while_it_is_read_is_built_again(
    built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes find the same damage; the slower one removes what the faster one has just written."""
    read = tokenizer_build._read

    def removed_once(file: Path) -> Tokenizer:
        if len(built) == 1:
            shutil.rmtree(file.parent)
        return read(file)

    monkeypatch.setattr(tokenizer_build, "_read", removed_once)
    assert tokenizer_build.built_in("llama3").get_vocab_size() == tokenizer_build.RECIPES["llama3"].size
    assert built == ["llama3", "llama3"]


def test_a_cache_that_cannot_be_written_is_an_error_at_once(built: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file stands where the folder should be")
    with pytest.raises(AssetError, match=r"cannot be written.*Set DRIFTSCOPE_CACHE"):
        tokenizer_build.built_in("llama3")
    assert built == []  # said before seconds of building


@pytest.mark.parametrize("name", NAMES)
def test_transformers_loads_our_folder_as_it_is(name: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = load_tokenizer(name)
    loaded = AutoTokenizer.from_pretrained(str(tokenizer_build.folder_of(name)), local_files_only=True)
    text = "[SMILES]CC=O[/SMILES][CONFORMER][C]<1.2034,-0.5100,0.0000>=[O]<-1.0,2.0,3.0>[/CONFORMER] 的 e\u0301"
    assert loaded.encode(text, add_special_tokens=False) == tokenizer.encode(text)
    assert loaded.eos_token_id == loaded.pad_token_id == tokenizer.end_id
    assert len(loaded) == tokenizer.vocab_size
