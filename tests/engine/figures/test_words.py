"""Figures as texts: a table of each."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.figures import words
from engine.figures.statistics import Interval
from engine.paths import ROOT

INF, HALF = math.inf, Interval(0.5, 0.25, 1.0)


@pytest.mark.parametrize(
    ("write", "given", "text"),
    [
        (words.number, (None,), "–"),
        (words.number, (1_234_567,), "1,234,567"),
        (words.number, (0.9994,), "0.999"),
        (words.number, (0.9996,), "1.00"),
        (words.number, (9.996,), "10.0"),
        (words.number, (99.96,), "100"),
        (words.number, (12_345.6,), "12,346"),
        (words.number, (12_344.5,), "12,345"),
        (words.number, (2.675,), "2.68"),
        (words.number, (-0.0625,), "−0.063"),
        (words.whole, (2.5,), "3"),
        (words.percent, (0.3125,), "31.3 %"),
        (words.percent, (0.0615,), "6.2 %"),
        (words.short_percent, (0.3125,), "31.3%"),
        (words.points, (-0.0225,), "−2.3 points"),
        (words.significant, (0.125, 2), "0.13"),
        (words.fixed, (-0.001, 2), "0.00"),
        (words.number, (0.00001,), "1.0e-05"),
        (words.number, (INF,), "∞"),
        (words.signed, (1.5,), "+1.50"),
        (words.large, (999_999,), "999,999"),
        (words.large, (12_340_000,), "12.3 M"),
        (words.large, (2.5e9,), "2.50 G"),
        (words.percent, (None,), "–"),
        (words.percent, (0.0,), "0 %"),
        (words.percent, (1 - 1e-15,), "100 %"),
        (words.percent, (0.0004,), "<0.1 %"),
        (words.percent, (0.0005,), "0.1 %"),
        (words.percent, (0.9996,), ">99.9 %"),
        (words.points, (0.0042,), "+0.4 points"),
        (words.points, (-0.0001,), "0.0 points"),
        (words.times, (None,), "–"),
        (words.times, (2.618,), "2.62×"),
        (words.speed, (0.227,), "4.41× faster"),
        (words.speed, (0.227, (0.2, 0.25)), "4.41× faster (4.00–5.00)"),
        (words.speed, (1.2, (1.1, 1.3)), "slower by 1.20× (1.10–1.30)"),
        (words.speed, (0.999,), "as fast"),
        (partial(words.speed, than="none"), (0.999,), "as fast as none"),
        (partial(words.speed, per="sample", than="none"), (0.227,), "4.41× faster per sample than none"),
        (partial(words.speed, than="none"), (1.2, (1.1, 1.3)), "slower by 1.20× than none (1.10–1.30)"),
        (words.speed, (None,), "–"),
        (words.microseconds, (1_500.0,), "1.50 ms"),
        (words.microseconds, (-2.5e6,), "−2.50 s"),
        (words.signed_microseconds, (1_500.0,), "+1.50 ms"),
        (words.signed_microseconds, (0.0,), "0 µs"),
        (words.duration, (0.25,), "0.250 s"),
        (words.duration, (89.6,), "1 min 30 s"),
        (words.duration, (125,), "2 min 05 s"),
        (words.duration, (3_599.6,), "1 h 00 min"),
        (words.duration, (12_000,), "3 h 20 min"),
        (words.duration, (INF,), "never"),
        (words.counted, (1, "run"), "1 run"),
        (words.counted, (0, "run"), "0 runs"),
        (words.counted, (1_200, "entry", "entries"), "1,200 entries"),
        (words.agreeing, (0, "is", "are"), "are"),
        (words.listed, ([], "and"), ""),
        (words.listed, (["a", "b"], "or"), "a or b"),
        (words.listed, (["a", "b", "c"], "and"), "a, b and c"),
        (words.significant, (-31.5391, 6), "−31.5391"),
        (words.significant, (-INF, 3), "−inf"),
        (words.span, (0.17, 0.19), "0.170–0.190"),
        (words.span, (-0.1, 0.2), "−0.100 to 0.200"),
        (words.span, (1.0, INF), "1.00–∞"),
        (words.with_interval, (HALF, words.percent), "50.0 % (25.0–100)"),
        (words.with_interval, (HALF, words.times), "0.500× (0.250–1.00)"),
        (words.with_interval, (HALF, words.points), "+50.0 points (+25.0 to +100.0)"),
        (words.with_interval, (HALF, words.angstrom), "0.500 Å (0.250–1.00)"),
    ],
)
def test_a_figure_reads_one_way(write: Callable[..., str], given: tuple[Any, ...], text: str) -> None:
    assert write(*given) == text


@pytest.mark.parametrize(
    ("first", "second", "decimals"), [(1.92, 1.9, 2), (1.002, 1.004, 3), (0.99999, 1.0, 5), (1.0, 1.0, 6)]
)
def test_two_figures_have_as_many_decimals_as_tell_them_apart(first: float, second: float, decimals: int) -> None:
    assert words.decimals_apart(first, second) == decimals


def test_a_table_gets_the_figure_that_a_text_has() -> None:
    small = (0.0006, 0.0005, 1e-12, 0.04648, 0.12345)
    for value in (*small, 0.9996, 2.675, 9.996, 99.96, 1234.5, -0.0625, 0.0, 1e9, 318.004):
        assert words.number(words.three_digits(value)) == words.number(value)
    assert words.three_digits(0.04648) == 0.046, "not 0.0465, which the next one rounds up"


@given(st.integers(0, 100_000), st.integers(1, 100_000))
def test_a_share_is_rounded_as_the_fraction_that_it_is_half_away_from_zero(part: int, whole: int) -> None:
    part = min(part, whole)
    exact = Fraction(part, whole)
    tenths = math.floor(1000 * exact + Fraction(1, 2))
    assert words.rounded(100 * (part / whole), 1) == tenths / 10
    assert words.short_percent(-part / whole) == ("-" if tenths else "") + f"{tenths // 10:,}.{tenths % 10}%"


@given(st.decimals(-(10**6), 10**6, places=5), st.integers(0, 3))
def test_a_float_is_rounded_as_the_decimal_that_was_written(written: Decimal, decimals: int) -> None:
    """Its nearest float may lie below a tie, as that of 2.675 does; what is computed of it errs a little more."""
    expected = written.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    for value in (float(written), float(written) * 3 / 3, math.fsum([float(written) / 7] * 7)):
        assert words.rounded(value, decimals) == float(expected)
        assert words.fixed(value, decimals).replace(",", "").replace("−", "-") == str(expected + 0)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 6))
def test_no_float_moves_by_more_than_half_of_its_last_digit(value: float, decimals: int) -> None:
    size = Fraction(1, 10**decimals)
    moved = abs(Fraction(words.rounded(value, decimals)) - Fraction(value))
    assert moved <= size * (Fraction(1, 2) + Fraction(1, 10**6)) + abs(Fraction(value)) / 2**52


SHOWN = ("engine/questions", "engine/evidence", "engine/inspection", "engine/logits", "engine/profile", "engine/cli",
         "engine/jobs/progress.py", "engine/chem/verdict.py", "engine/chem/geometry.py", "pages")  # fmt: skip


def test_no_figure_that_a_reader_sees_is_rounded_by_a_format() -> None:
    """Which takes half to even, of the binary value: ``f"{31.25:.1f}"`` is 31.2."""
    paths = [path for part in SHOWN for path in ((ROOT / part).rglob("*.py") if "." not in part else [ROOT / part])]
    assert len(paths) > 100
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            form = ast.unparse(node.format_spec) if isinstance(node, ast.FormattedValue) and node.format_spec else ""
            assert not re.search(r"\.\d+[f%]", form), f"{path}:{getattr(node, 'lineno', 0)}: words.fixed"


def test_one_element_type_has_one_name() -> None:
    """Pages had F16, FP16 and float16 beside one another."""
    assert {words.precision_name(name) for name in ("fp16", "F16", "float16", " f16 ")} == {"float16"}
    same = {"bf16": "bfloat16", "FP32": "float32", "q4_K_M": "Q4_K_M", "TF32": "TF32", "": None, None: None}
    assert {name: words.precision_name(name) for name in same} == same
