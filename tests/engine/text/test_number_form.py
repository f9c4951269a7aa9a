"""The number format that texts show."""

from __future__ import annotations

import random

import pytest

from engine.chem.enriched import format_number
from engine.records import FIXED4, SHORTEST4, TRIMMED4, NumberFormat
from engine.text.blocks import ENOUGH, found_form


def texts_of(form: NumberFormat, blocks: int = ENOUGH) -> list[str]:
    """As models write, but for one x in twenty, which is a whole number."""
    rng = random.Random(0)
    texts = []
    for _ in range(blocks):
        values = [rng.gauss(0.0, 3.0) for _ in range(3)]
        if rng.random() < 0.05:
            values[0] = round(values[0])
        texts.append(f"[C]<{','.join(format_number(value, form) for value in values)}>")
    return texts


@pytest.mark.parametrize("form", [FIXED4, TRIMMED4, SHORTEST4, NumberFormat(1, 2), NumberFormat(0, 3)], ids=str)
@pytest.mark.parametrize("forced_close", [False, True])
def test_each_writer_is_known_by_its_texts(form: NumberFormat, forced_close: bool) -> None:
    counted = ENOUGH * (2 if forced_close else 3)
    assert found_form(texts_of(form), forced_close=forced_close) == (form, counted)
    assert found_form(texts_of(form, ENOUGH // 2 - 1), forced_close=True) == (None, ENOUGH - 2)  # too few


def test_what_an_lp_cut_or_forced_counts_for_nothing() -> None:
    cut = [text[:-3] + ">" for text in texts_of(FIXED4)]
    assert found_form(cut, forced_close=True)[0] == FIXED4
    assert found_form(["[C]<1.2345,1>", "[C]<267,1.5", *cut], forced_close=True)[0] == FIXED4


def test_damage_is_outvoted() -> None:
    damaged = ["[C]<1.5,2,0.5>", "[C]<1.25amen,2.0", "[C]<0512,0498,0501>", "[C]<>"]
    assert found_form([*texts_of(FIXED4), *damaged], forced_close=False)[0] == FIXED4
    assert found_form([*texts_of(TRIMMED4), "[C]<1.5,2,0.5>"], forced_close=False)[0] == TRIMMED4


def test_where_nothing_tells_integers_are_none() -> None:
    texts = [text for text in texts_of(SHORTEST4) if text.count(".") == 3]
    assert found_form(texts, forced_close=False)[0] == TRIMMED4
