"""Arithmetic among rounded figures, against results worked out by hand."""

import pytest

from engine.errors import FileFormatError
from engine.evidence.formula import Range, evaluate, figures_of, with_figures

FIGURES = {
    "a": Range(1.335, 1.34, 1.345),
    "b": Range(2.615, 2.62, 2.625),
    "whole": Range.exact(48_440),
    "zero": Range(-1, 0, 1),
}


def test_a_product_has_the_range_of_its_factors() -> None:
    found = evaluate("{a} * {b}", FIGURES)
    assert isinstance(found, Range)
    assert (found.least, found.value, found.most) == pytest.approx((1.335 * 2.615, 1.34 * 2.62, 1.345 * 2.625))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("{whole} / 28", 1_730.0),
        ("({whole} - 96768 / 2) / 2", 28.0),
        ("mean(1, 2, 6)", 3.0),
        ("min({a}, {b})", 1.34),
        ("max({a}, {b})", 2.62),
        ("abs(0 - 3)", 3.0),
        ("-2 + 5", 3.0),
    ],
)
def test_values(formula, value) -> None:
    found = evaluate(formula, FIGURES)
    assert isinstance(found, Range)
    assert found.value == pytest.approx(value)


def test_a_difference_of_rounded_figures_is_wider_than_either() -> None:
    found = evaluate("{b} - {a}", FIGURES)
    assert isinstance(found, Range)
    assert (found.least, found.most) == pytest.approx((1.27, 1.29))


@pytest.mark.parametrize(
    ("formula", "outcome"),
    [
        ("whole({whole} / 28)", True),
        ("whole({whole} / 24)", False),
        ("{a} < {b}", True),
        ("{a} > {b}", False),
        ("{a} == 1.342", True),
        ("{a} == 1.35", False),
        ("{a} != 1.35", True),
        ("1 < {a} < {b}", True),
        ("1 < {a} and {b} < 2", False),
        ("not {a} > {b}", True),
        ("{a} <= {b}", True),
        ("{a} >= {b}", False),
    ],
)
def test_comparisons(formula, outcome) -> None:
    assert evaluate(formula, FIGURES) is outcome


def test_words_stand_for_formulas_in_their_order() -> None:
    assert evaluate("whole(steps)", FIGURES, {"layers": "14 * 2", "steps": "{whole} / layers"}) is True


@pytest.mark.parametrize(
    "formula",
    [
        "{a} +",
        "{unknown}",
        "open('x')",
        "(1).real",
        "unknown",
        "{a} ** 2",
        "{a} / {zero}",
        "({a} < {b}) + 1",
        "'1'",
        "{a} or {b}",
        "min(",
    ],
)
def test_what_is_no_arithmetic_is_refused(formula) -> None:
    with pytest.raises(FileFormatError):
        evaluate(formula, FIGURES)


def test_a_range_is_in_order() -> None:
    with pytest.raises(ValueError, match="lie between"):
        Range(2, 1, 3)


def test_ranges_meet_where_they_touch() -> None:
    assert Range(0, 1, 2).meets(Range(2, 3, 4))
    assert not Range(0, 1, 2).meets(Range(2.1, 3, 4))


def test_a_formula_is_written_with_its_figures() -> None:
    assert figures_of("{a} * {b}") == ["a", "b"]
    assert with_figures("{a} * {b}", {"a": "1.34", "b": "2.62"}) == "1.34 * 2.62"
