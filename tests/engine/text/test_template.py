"""Templates against a slow reading of the same rules, character by character."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import skeleton_of
from engine.errors import EnrichedError, PlaceholderError
from engine.lp_records import DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER
from engine.records import Molecule
from engine.text.template import (
    GUESSED_PLACEHOLDER,
    ROLES,
    Template,
    build_template,
    build_templates,
    needed_by_content,
    token_roles,
)
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.strategies import MOLECULES, molecule, molecules

NAMES = ("qwen3", "llama3")
PLACEHOLDERS = (
    DEFAULT_PLACEHOLDER,
    SHORT_PLACEHOLDER,
    GUESSED_PLACEHOLDER,
    "-1.0000,-2.0000,-3.0000",
    "0",
    "?",
    "的 e\u0301",
)


def placeholders() -> st.SearchStrategy[str]:
    allowed = st.characters(categories=("L", "N", "P", "S"), exclude_characters="<>[]")
    texts = (st.text("0123456789.,-", min_size=1, max_size=30), st.text(allowed, min_size=1, max_size=30))
    return st.one_of(st.sampled_from(PLACEHOLDERS), *texts)


def roles_by_character(text: str) -> tuple[list[int], list[bool]]:
    """For each character the block that it belongs to (-1: none), and whether it stands between the brackets."""
    block_of, is_inside = [-1] * len(text), [False] * len(text)
    block = -1
    position = 0
    while position < len(text):
        if text[position] == "<" and text[position - 1 : position] == "]":
            block += 1
            block_of[position] = block
            position += 1
            while text[position] != ">":
                block_of[position], is_inside[position] = block, True
                position += 1
            block_of[position] = block
        position += 1
    return block_of, is_inside


def check_against_characters(template: Template, tokenizer: TextTokenizer) -> None:
    block_of, is_inside = roles_by_character(template.text)
    tokens = tokenizer.tokens(template.text)
    assert template.ids.tolist() == [token.id for token in tokens] == tokenizer.encode(template.text)
    free_per_block = [0] * (max(block_of) + 1)
    for position, token in enumerate(tokens):
        inside = is_inside[token.start : token.end]
        role = "FREE" if all(inside) else "BOUNDARY" if any(inside) else "COPY"
        assert ROLES[template.roles[position]] == role
        blocks = set(block_of[token.start : token.end]) - {-1}
        assert template.block_of[position] == min(blocks, default=-1)
        assert (template.starts[position], template.ends[position]) == (token.start, token.end)
        if role == "FREE":
            free_per_block[min(blocks)] += 1
    assert template.free_per_block.tolist() == free_per_block
    assert template.free + template.copy == template.tokens == len(tokens)
    assert template.free == sum(free_per_block)
    assert template.blocks == len(free_per_block) == len(template.block_spans)


@pytest.mark.soak
@given(molecules(), placeholders(), st.booleans(), st.sampled_from(NAMES))
def test_roles_and_blocks_are_those_of_the_characters(mol: Molecule, placeholder: str, tags: bool, name: str) -> None:
    tokenizer = load_tokenizer(name)
    template = build_template(skeleton_of(mol), tokenizer, placeholder, tags=tags)
    assert template.text == ("[CONFORMER]{}[/CONFORMER]" if tags else "{}").format(skeleton_of(mol, placeholder))
    assert template.blocks == mol.atoms
    ahead = build_template("[C]<>[C]<>", tokenizer, placeholder)  # what follows may merge with the close
    assert needed_by_content([("[C]", placeholder)], tokenizer) == ahead.free_per_block[:1].tolist()
    check_against_characters(template, tokenizer)


@pytest.mark.parametrize(("name", "free"), [("qwen3", 40), ("llama3", 28)])
def test_the_known_skeleton(name: str, free: int) -> None:
    """Section 2.3 of the report: as many COPY tokens under both, 40 FREE against 28."""
    template = build_template("[C]<>=[O]<>", load_tokenizer(name))
    assert (template.tokens, template.free, template.copy) == (free + 7, free, 7)
    assert template.free_per_block.tolist() == [free // 2, free // 2]


@pytest.mark.parametrize("name", NAMES)
def test_the_signs_of_a_placeholder(name: str) -> None:
    tokenizer = load_tokenizer(name)
    plain, minus_x, minus_y = (
        build_template("[C]<>", tokenizer, text).free for text in ("0.0,0.0,0.0", "-0.0,0.0,0.0", "0.0,-0.0,0.0")
    )
    assert minus_x == plain + 1  # the sign of x is a token of its own
    assert minus_y == plain  # that of y is part of the comma
    merged = build_template("[Ca++]<>", tokenizer, "-0.0,0.0,0.0")  # but for '++]', which takes '<-'
    assert merged.free == plain
    assert [ROLES[merged.roles[position]] for position in range(5)].count("BOUNDARY") == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_what_its_texts_are_alone(name: str) -> None:
    texts = [skeleton_of(molecule(smiles)) for smiles in MOLECULES]
    tokenizer = load_tokenizer(name)
    for text, template in zip(texts, build_templates(texts, tokenizer), strict=True):
        alone = build_template(text, tokenizer)
        assert template.ids.tolist() == alone.ids.tolist()
        assert template.roles.tolist() == alone.roles.tolist()
    assert build_templates([], tokenizer) == []


@pytest.mark.parametrize(
    ("placeholder", "reason"),
    [
        ("", "is empty"),
        ("0" * 101, "has 101 characters, the limit is 100"),
        ("0<0", "contains '<'"),
        ("think", "a special token"),
    ],
)
def test_a_bad_placeholder_is_refused(placeholder: str, reason: str) -> None:
    with pytest.raises(PlaceholderError, match=reason):
        build_template("[C]<>", load_tokenizer("qwen3"), placeholder)


@pytest.mark.parametrize("text", ["", "CCO", "<0.0,0.0,0.0>", "[Fe]<-[NH3]"])
def test_a_text_without_blocks_has_no_template(text: str) -> None:
    with pytest.raises(EnrichedError, match="no block to put a placeholder into"):
        build_template(text, load_tokenizer("qwen3"))


def test_more_blocks_than_a_short_integer_counts() -> None:
    """32,768 blocks once came out as block -32,768."""
    blocks = 33_000
    starts = np.arange(blocks * 3)
    spans = np.stack([starts[::3], starts[::3] + 3], axis=1)  # '<', one character, '>'
    roles, block_of = token_roles(starts, starts + 1, spans, blocks * 3)
    assert block_of.tolist() == [index // 3 for index in range(blocks * 3)]
    assert roles.tolist() == [0, 1, 0] * blocks
