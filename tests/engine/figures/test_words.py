"""Figures as texts: a table of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from engine.figures import words
from engine.figures.statistics import Interval

INF = math.inf


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (words.number, None, "–"),
        (words.number, math.nan, "–"),
        (words.number, 0, "0"),
        (words.number, 1_234_567, "1,234,567"),
        (words.number, 1.004, "1.00"),
        (words.number, 0.9994, "0.999"),
        (words.number, 0.9996, "1.00"),
        (words.number, 9.996, "10.0"),
        (words.number, 99.96, "100"),
        (words.number, 12_345.6, "12,346"),
        (words.number, 0.0123, "0.012"),
        (words.number, 0.00001, "1.0e-05"),
        (words.number, INF, "∞"),
        (words.signed, 1.5, "+1.50"),
        (words.whole, 1_234.6, "1,235"),
        (words.large, 999_999, "999,999"),
        (words.large, 12_340_000, "12.3 M"),
        (words.large, 2.5e9, "2.50 G"),
        (words.percent, None, "–"),
        (words.percent, 0.0, "0 %"),
        (words.percent, 1 - 1e-15, "100 %"),
        (words.percent, 0.0004, "<0.1 %"),
        (words.percent, 0.0005, "0.1 %"),
        (words.percent, 0.9996, ">99.9 %"),
        (words.percent, 0.4284, "42.8 %"),
        (words.points, 0.0042, "+0.4 points"),
        (words.points, -0.0001, "0.0 points"),
        (words.times, None, "–"),
        (words.times, 2.618, "2.62×"),
        (words.seconds, 0.17512, "0.175 s"),
        (words.microseconds, 0.0, "0 µs"),
        (words.microseconds, 1_500.0, "1.50 ms"),
        (words.microseconds, -2.5e6, "−2.50 s"),
        (words.signed_microseconds, 1_500.0, "+1.50 ms"),
        (words.signed_microseconds, 0.0, "0 µs"),
        (words.duration, 0.25, "0.250 s"),
        (words.duration, 89.6, "1 min 30 s"),
        (words.duration, 125, "2 min 05 s"),
        (words.duration, 3_599.6, "1 h 00 min"),
        (words.duration, 12_000, "3 h 20 min"),
        (words.duration, INF, "never"),
    ],
)
def test_a_figure_reads_one_way(write: Callable[[Any], str], value: float | None, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("count", "nouns", "text"),
    [(1, ("run",), "1 run"), (0, ("run",), "0 runs"), (1_200, ("entry", "entries"), "1,200 entries")],
)
def test_a_count_goes_with_its_noun(count: int, nouns: tuple[str, ...], text: str) -> None:
    assert words.counted(count, *nouns) == text


@pytest.mark.parametrize(
    ("parts", "word", "text"),
    [([], "and", ""), (["a"], "and", "a"), (["a", "b"], "or", "a or b"), (["a", "b", "c"], "and", "a, b and c")],
)
def test_a_list_ends_in_its_word(parts: list[str], word: str, text: str) -> None:
    assert words.listed(parts, word) == text


def test_one_element_type_has_one_name() -> None:
    """Pages had F16, FP16 and float16 beside one another."""
    assert {words.precision_name(name) for name in ("fp16", "F16", "float16", " f16 ")} == {"float16"}
    same = {"bf16": "bfloat16", "FP32": "float32", "q4_K_M": "Q4_K_M", "TF32": "TF32", "": None, None: None}
    assert {name: words.precision_name(name) for name in same} == same


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (-31.5391, 6, "−31.5391"),
        (1e16, 6, "1e+16"),
        (-INF, 3, "−inf"),
    ],
)
def test_a_value_of_any_size_has_the_sign_of_all_figures(value: float, digits: int, text: str) -> None:
    assert words.significant(value, digits) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.17, 0.19, "0.170–0.190"), (-0.1, 0.2, "−0.100 to 0.200"), (2.0, 2.001, "2.00–2.00"), (1.0, INF, "1.00–∞")],
)
def test_an_interval_has_two_ends(low: float, high: float, text: str) -> None:
    assert words.span(low, high) == text


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (words.percent, "50.0 % (25.0–100)"),
        (words.times, "0.500× (0.250–1.00)"),
        (words.points, "+50.0 points (+25.0 to +100.0)"),
        (words.angstrom, "0.500 Å (0.250–1.00)"),
    ],
)
def test_the_unit_is_written_once(write: Callable[[Any], str], text: str) -> None:
    assert words.with_interval(Interval(0.5, 0.25, 1.0), write) == text
