"""Patterns that read anybody's texts take no time with the square of their length: with it, these would not end."""

from __future__ import annotations

from engine.chem.other_forms import other_form
from engine.profile.families import load_families

LONG = 1_000_000


def test_long_texts_are_read_in_time() -> None:
    assert other_form("a<" + LONG * "1") is None and other_form("a<" + LONG // 2 * "1\n") is None
    assert load_families().of_name(LONG * "1") == ("mark", "mark")
