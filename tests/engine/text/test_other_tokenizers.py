"""Any other tokenizer in the place of the two, and what is no tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from engine.errors import TokenizerError
from engine.text.tokenizers import load_tokenizer
from tests.small_tokenizers import CORPUS, SMALL_TOKENIZERS, small_byte_fallback, small_byte_level


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
    with pytest.raises(TokenizerError, match=r"there is no tokenizer '.*'\. Use one of qwen3, llama3, or the path"):
        load_tokenizer(name)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "holds no tokenizer"),
        ({"tokenizer.json": b"CCO"}, "is no tokenizer"),
        ({"tokenizer_config.json": b'{"tokenizer_class": 5}'}, "holds no tokenizer that can be read"),
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
