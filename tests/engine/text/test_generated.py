"""Matching atoms against trying every way to match them; what a pasted text is, and what its blocks need."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.questions.lab_text import beyond_template
from engine.text import generated
from engine.text.generated import GAP, OTHER, SAME, SAME_ATOM, Unit, block_needs, match_units, read_text, read_tokens
from engine.text.tokenizers import load_tokenizer

UNITS: tuple[Unit, ...] = (("[C]", ""), ("[C]", "="), ("[N]", ""), ("[O]", "("), ("[c]", "1"))
C, DOUBLE_C, N, OX, AROMATIC = UNITS


def units(most: int = 7) -> st.SearchStrategy[list[Unit]]:
    return st.lists(st.sampled_from(UNITS), max_size=most)


def score_of(matched: list[int], template: list[Unit], generated: list[Unit]) -> int:
    pairs = [(template[there], generated[here]) for here, there in enumerate(matched) if there >= 0]
    values = [SAME if left == right else SAME_ATOM if left[0] == right[0] else OTHER for left, right in pairs]
    return sum(values) + GAP * (len(template) + len(generated) - 2 * len(pairs))


def best_score(template: list[Unit], generated: list[Unit]) -> int:
    """By trying everything: match, leave out, leave out."""

    @functools.cache
    def best(i: int, j: int) -> int:
        if i == len(generated) or j == len(template):
            return GAP * (len(generated) - i + len(template) - j)
        left, right = template[j], generated[i]
        value = SAME if left == right else SAME_ATOM if left[0] == right[0] else OTHER
        return max(value + best(i + 1, j + 1), GAP + best(i + 1, j), GAP + best(i, j + 1))

    return best(0, 0)


@pytest.mark.soak
@given(units(), units())
def test_no_other_matching_scores_more(template: list[Unit], generated: list[Unit]) -> None:
    matched = match_units(template, generated)
    assert len(matched) == len(generated)
    indices = [index for index in matched if index >= 0]
    assert indices == sorted(set(indices))
    assert all(index < len(template) for index in indices)
    assert score_of(matched, template, generated) == best_score(template, generated)


@pytest.mark.parametrize(
    ("template", "generated", "matched"),
    [
        ([], [C, N], [-1, -1]),
        ([C, N, OX], [C, N], [0, 1]),  # the tail is missing
        ([C, OX], [C, N, N, OX], [0, -1, -1, 1]),
        ([C, N, OX], [C, AROMATIC, N, OX], [0, -1, 1, 2]),  # an invented one for none
        ([C, DOUBLE_C, OX], [C, C, OX], [0, 1, 2]),  # another bond before the same atom is
    ],
)
def test_atoms_match_by_what_they_are(template: list[Unit], generated: list[Unit], matched: list[int]) -> None:
    assert match_units(template, generated) == matched


def test_beyond_the_limit_atoms_pair_from_the_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "MOST_CELLS", 5)
    assert match_units([C, N, OX], [N, OX, C, C]) == [0, 1, 2, -1]
    assert match_units([C, N, OX], [C, OX]) == [0, 2]  # what differs is small: the equal beginning does not count


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


def test_what_follows_an_unclosed_block_is_not_in_it() -> None:
    """The bracket of the next atom was once shown as part of the block before it."""
    tokenizer = load_tokenizer("qwen3")
    tokens = read_tokens(read_text("[C]<1.0,2.0[O]<3.0,4.0,5.0>", tokenizer), tokenizer)
    assert "".join(token.piece for token in tokens if token.block == 0) == "]<1.0,2.0"
    assert "".join(token.piece for token in tokens if token.block == 1) == "]<3.0,4.0,5.0>"
