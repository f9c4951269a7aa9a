"""What a pasted text is, its tokens' roles and marks, and what its blocks need."""

import pytest

from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.text.generated import block_needs, read_text, read_tokens
from engine.text.tokenizers import load_tokenizer
from pages._tokenizer_lab.text import beyond_template, kind_of_input


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CC=O", "smiles"),
        ("  c1ccccc1\n", "smiles"),
        ("1.234,-5.678,9.012", "coordinate"),
        ("<6.9467,-1.369,0.8415amen>", "coordinate"),
        ("[C]<1.0,2.0,3.0>=[O]<1.0,2.0,3.0>", "enriched"),
        ("hello world", "text"),
        ("C<1.0,2.0,3.0>=O<1.0,2.0,3.0>", "legacy"),
        ("[C]<0512,0498,0501>", "binned"),
        ('{"timestamp": "now", "logs": []}', "summary"),
        ("", "text"),
    ],
)
def test_kind_of_input(text, kind) -> None:
    assert kind_of_input(text) == kind


@pytest.mark.parametrize("name", ["qwen3", "llama3"])
def test_roles_and_junk_of_a_block(name) -> None:
    tokenizer = load_tokenizer(name)
    annotated = read_text("[C]<1.5,2.5,3.5amen>", tokenizer)
    tokens = read_tokens(annotated, tokenizer)
    assert "".join(item.piece for item in tokens) == "[C]<1.5,2.5,3.5amen>"
    assert [item.piece for item in tokens if item.role != "FREE"] == ["[C", "]<", ">"]
    assert [item.piece for item in tokens if item.is_junk] == ["amen"]
    assert annotated.readings[0].kinds == ("letters",)


def test_tokens_beyond_the_placeholder_are_the_ones_that_a_position_lp_cuts() -> None:
    tokenizer = load_tokenizer("qwen3")
    annotated = read_text("[C]<-1.2034,-0.5100,0.0000>=[O]<1.1034,0.5100,0.0000>", tokenizer)
    needs = block_needs(annotated, tokenizer, DEFAULT_PLACEHOLDER)
    assert [(need.template_free, need.needed, need.drift) for need in needs] == [(20, 21, -1), (20, 20, 0)]
    tokens = read_tokens(annotated, tokenizer)
    beyond = beyond_template(tokens, needs)
    assert [(tokens[index].piece, tokens[index].block) for index in beyond] == [("0", 0)]


def test_a_block_without_three_numbers_has_no_known_need() -> None:
    tokenizer = load_tokenizer("llama3")
    need = block_needs(read_text("[C]<1.0,2.0>", tokenizer), tokenizer, DEFAULT_PLACEHOLDER)[0]
    assert (need.needed, need.drift, need.template_free) == (None, None, 14)


def test_what_follows_an_unclosed_block_is_not_in_it() -> None:
    """The bracket of the next atom was once shown as part of the block before it."""
    tokenizer = load_tokenizer("qwen3")
    tokens = read_tokens(read_text("[C]<1.0,2.0[O]<3.0,4.0,5.0>", tokenizer), tokenizer)
    assert "".join(token.piece for token in tokens if token.block == 0) == "]<1.0,2.0"
    assert "".join(token.piece for token in tokens if token.block == 1) == "]<3.0,4.0,5.0>"
