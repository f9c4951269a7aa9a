"""What a pasted text is, its tokens' roles and marks, and what its blocks need."""

import pytest

from engine.errors import PlaceholderError
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.text.generated import block_needs, read_text, read_tokens
from engine.text.template import build_template
from engine.text.tokenizers import load_tokenizer
from pages._tokenizer_lab.text import beyond_template, kind_of_input


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CC=O", "smiles"),
        ("[NH3]->[Fe]<-[NH3]", "smiles"),
        ("  c1ccccc1\n", "smiles"),
        ("1.234,-5.678,9.012", "coordinate"),
        ("<0.0000,0.0000,0.0000>", "coordinate"),
        ("<6.9467,-1.369,0.8415amen>", "coordinate"),
        ("[C]<1.0,2.0,3.0>=[O]<1.0,2.0,3.0>", "enriched"),
        ("[CONFORMER][C]<-1.0,2.0", "enriched"),
        ("hello world", "text"),
        ("C<1.0,2.0,3.0>=O<1.0,2.0,3.0>", "legacy"),
        ("[C]<0512,0498,0501>", "binned"),
        ("<012,498,501>", "binned"),
        ('{"timestamp": "now", "logs": []}', "summary"),
        ("é", "text"),
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


def test_no_junk_is_marked_in_a_clean_block() -> None:
    assert not read_text("[C]<1.5,2.5,3.5>", load_tokenizer("qwen3")).is_junk.any()


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


def test_a_placeholder_that_cannot_stand_in_a_block_is_refused() -> None:
    tokenizer = load_tokenizer("qwen3")
    with pytest.raises(PlaceholderError):
        block_needs(read_text("[C]<1.0,2.0,3.0>", tokenizer), tokenizer, "0<0")


def test_a_template_in_the_same_form() -> None:
    tokenizer = load_tokenizer("qwen3")
    template = build_template("[C]<>=[O]<>", tokenizer)
    tokens = read_tokens(template, tokenizer)
    assert sum(item.role == "FREE" for item in tokens) == template.free == 40
    assert [item.id for item in tokens] == template.ids.tolist()
    assert [item.block for item in tokens if item.role == "FREE"] == [0] * 20 + [1] * 20


def test_text_without_blocks_is_copy_from_end_to_end() -> None:
    annotated = read_text("hello 😀 world", load_tokenizer("llama3"))
    assert {item.role for item in read_tokens(annotated, load_tokenizer("llama3"))} == {"COPY"}
    assert annotated.blocks == []


def test_what_follows_an_unclosed_block_is_not_in_it() -> None:
    """The bracket of the next atom was once shown as part of the block before it."""
    tokenizer = load_tokenizer("qwen3")
    tokens = read_tokens(read_text("[C]<1.0,2.0[O]<3.0,4.0,5.0>", tokenizer), tokenizer)
    assert "".join(token.piece for token in tokens if token.block == 0) == "]<1.0,2.0"
    assert "".join(token.piece for token in tokens if token.block == 1) == "]<3.0,4.0,5.0>"
