"""The built-in tokenizers through tiktoken equal their Hugging Face form, in tokens, offsets and vocabulary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import AssetError
from engine.text import tokenizer_build
from engine.text.tokenizers import RankTokenizer, TextTokenizer, load_tokenizer

NAMES = tokenizer_build.NAMES
WRITABLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
# Combining marks after a tag and after letters: what NFC would change, and where it must not reach.
ODD = st.lists(
    st.sampled_from(["[SMILES]", "<|endoftext|>", "\u0338", "e\u0301", "é", "的", ">[", "1234567", " ", "\n"]),
    max_size=8,
)


def hugging_face(name: str) -> TextTokenizer:
    return TextTokenizer(name, tokenizer_build.built_in(name))


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


_SLOW = {name: hugging_face(name) for name in NAMES}
