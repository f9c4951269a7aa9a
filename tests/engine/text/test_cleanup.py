"""Cleanup strips what follows complete numbers, and invents none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.records import TRIMMED4
from engine.text.blocks import find_blocks, read_block
from engine.text.check import clean_up
from tests.report_examples import LLAMA_EXAMPLES, QWEN_EXAMPLES
from tests.strategies import JUNK, Written, any_text, damaged, enriched_texts, molecules, seeds


@pytest.mark.parametrize(("content", "kinds", "junk"), QWEN_EXAMPLES + LLAMA_EXAMPLES)
def test_the_examples_of_the_reports_are_mended(content: str, kinds: tuple[str, ...], junk: str) -> None:
    cleaned = clean_up(f"[C]<{content}>=[O]<1.0,2.0,3.0>")
    assert cleaned == f"[C]<{content.removesuffix(junk)}>=[O]<1.0,2.0,3.0>"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("[C]<1.0,2.0,3.00001>", "[C]<1.0,2.0,3.0000>"),
        ("[C]<1.0,2.0,3.0,>[O]<1.0,2.0,3.0,4.0>", "[C]<1.0,2.0,3.0>[O]<1.0,2.0,3.0>"),
        ("[C]<1.0,2.0,>[O]<1.0,2.0,3.0C>", "[C]<1.0,2.0,>[O]<1.0,2.0,3.0>"),
        ("[C]<1.0,2.0>", "[C]<1.0,2.0>"),  # a missing number stays missing
        ("[C]<1,-2,3>[C]<1,-2,3amen>", "[C]<1,-2,3>[C]<1,-2,3>"),
        ("[C]<1.0,2a.0,3.0>", "[C]<1.0,2a.0,3.0>"),  # 2.0 is not what was written
        ("[C]<1.00000,2.0,3.0>", "[C]<1.00000,2.0,3.0>"),
        ("[C]<1.0,2.0,3.0amen", "[C]<1.0,2.0,3.0amen"),  # no end to strip up to
        ("[Fe]<1.0,2.0,3.0C><-[N]<1.0,2.0,3.0>", "[Fe]<1.0,2.0,3.0><-[N]<1.0,2.0,3.0>"),
    ],
)
def test_only_complete_triples_are_mended(text: str, cleaned: str) -> None:
    assert clean_up(text) == cleaned


@pytest.mark.soak
@given(enriched_texts(molecules(shipped=60), TRIMMED4), st.lists(st.sampled_from(JUNK), min_size=1, max_size=5))
def test_junk_behind_every_triple_is_stripped(one: Written, junk: list[str]) -> None:
    contents = iter([",".join(triple) + junk[index % len(junk)] for index, triple in enumerate(one.numbers)])
    text = re.sub(r"(?<=\])<[^<>]*>", lambda _: f"<{next(contents)}>", one.text)
    assert clean_up(text) == one.text


@pytest.mark.soak
@given(st.one_of(any_text(120), st.builds(lambda one, seed: damaged(one.text, seed, 8), enriched_texts(), seeds())))
def test_no_number_is_invented_and_nothing_else_is_touched(text: str) -> None:
    cleaned = clean_up(text)
    before, after = find_blocks(text), find_blocks(cleaned)
    for old, new in zip(before, after, strict=True):
        if new.content != old.content:
            assert not read_block(old.content).is_clean_triple
            assert read_block(new.content).is_clean_triple
            assert old.content.startswith(new.content)  # so each number is one that was written, or its beginning
    assert between(text, [(block.start, block.end) for block in before]) == between(
        cleaned, [(block.start, block.end) for block in after]
    )
    assert clean_up(cleaned) == cleaned


def between(text: str, spans: list[tuple[int, int]]) -> list[str]:
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]
