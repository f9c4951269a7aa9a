"""Pictures for model cards: axes with round ticks, ink where the data is, and no trouble with odd data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image, ImageColor

from tools.training.charts import (
    BLUE,
    GREEN,
    HEIGHT,
    ORANGE,
    WIDTH,
    Bars,
    ChartAxis,
    ChartLine,
    histogram_chart,
    line_chart,
    linear_axis,
    log_axis,
)

X = linear_axis("million tokens seen", 0, 10)
LOSSES = log_axis("loss", [0.01, 10.0])
PERCENT = linear_axis("right", 0, 100, unit=" %", ticks=5)


def places(image: Image.Image, colour: str) -> list[tuple[int, int]]:
    """Pixels that have nearly this colour, as (x, y)."""
    distance = np.abs(np.asarray(image.convert("RGB"), dtype=int) - ImageColor.getrgb(colour)).max(axis=-1)  # [H, W]
    return [(int(x), int(y)) for y, x in np.argwhere(distance < 24)]


def in_plot(found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(x, y) for x, y in found if y > 100]


@pytest.mark.parametrize(
    ("low", "high", "ticks", "expected"),
    [
        (0, 100, 5, (0, 20, 40, 60, 80, 100)),
        (0, 7.3, 8, (0, 1, 2, 3, 4, 5, 6, 7, 8)),
        (0, 1, 6, (0, 0.2, 0.4, 0.6, 0.8, 1)),
        (0, 45_000_000, 5, (0, 10e6, 20e6, 30e6, 40e6, 50e6)),
        (0, 0, 2, (0, 0.5, 1)),
    ],
)
def test_linear_ticks_are_round_and_hold_the_data(
    low: float, high: float, ticks: int, expected: tuple[float, ...]
) -> None:
    axis = linear_axis("x", low, high, ticks=ticks)
    assert axis.ticks == expected
    assert (axis.low, axis.high) == (expected[0], expected[-1])
    assert axis.low <= low and axis.high >= high


def test_a_tight_axis_ends_where_the_data_ends() -> None:
    axis = linear_axis("x", 0.8, 2.6, ticks=9, tight=True)
    assert (axis.low, axis.high) == (0.8, 2.6)
    assert axis.ticks == (0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6)
    assert linear_axis("x", 0, 7.3, ticks=8, tight=True).ticks[-1] == 7


def test_log_ticks_are_decades_or_finer_where_there_are_few() -> None:
    assert log_axis("y", [0.002, 11]).ticks == (0.01, 0.1, 1, 10)
    assert log_axis("y", [0.6, 3, math.nan, math.inf, -1, 0]).ticks == (0.5, 1, 2)
    assert log_axis("y", []).ticks == (1,)


def test_shares_run_along_the_axis_and_stop_at_its_ends() -> None:
    linear, log = ChartAxis("x", 0, 10, ()), ChartAxis("y", 0.01, 100, (), is_log=True)
    assert [linear.share(value) for value in (-1, 0, 2.5, 10, 99)] == [0, 0, 0.25, 1, 1]
    assert [log.share(value) for value in (0.001, 0.01, 1, 100)] == pytest.approx([0, 0, 0.5, 1])
    assert [log.shows(value) for value in (0.0, -1.0, math.nan, math.inf, 0.5)] == [False, False, False, False, True]
    assert linear.shows(-1.0) and not linear.shows(math.nan)


def test_lines_run_where_their_axes_have_them() -> None:
    left = ChartLine("structure", [(0, 10), (10, 0.01)], BLUE)
    right = ChartLine("right", [(0, 0), (10, 100)], GREEN, "right", marks=True)
    image = line_chart("Training", X, LOSSES, [left, right], right=PERCENT)
    assert image.size == (WIDTH, HEIGHT)
    falling, rising = (sorted(in_plot(places(image, colour))) for colour in (BLUE, GREEN))
    assert falling[0][1] < 150 < 400 < falling[-1][1]
    assert rising[-1][1] < 150 < 400 < rising[0][1]
    assert min(falling)[0] < 100 and max(falling)[0] > WIDTH - 110
    above = [y for _, y in places(image, BLUE) if y < 100]
    assert above, "the legend shows the line's colour"


def test_what_an_axis_has_no_place_for_is_left_out() -> None:
    odd = [(0, math.nan), (1, 0.0), (2, -3.0), (math.inf, 1.0), (4, math.inf)]
    image = line_chart("Odd", X, LOSSES, [ChartLine("none", odd, BLUE), ChartLine("lone", [(5, 1.0)], ORANGE)])
    assert in_plot(places(image, BLUE)) == []
    assert in_plot(places(image, ORANGE)), "a lone point is a dot"


def test_no_data_is_an_empty_chart() -> None:
    empty = line_chart("Nothing", linear_axis("x", 0, 0), log_axis("y", []), [ChartLine("a", [], BLUE)])
    assert in_plot(places(empty, BLUE)) == []
    bars = histogram_chart("Nothing", "x", "bonds", [0, 1, 2], [Bars("a", [0, 0], GREEN)], note="nothing here")
    assert in_plot(places(bars, GREEN)) == []


def test_a_line_without_its_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="right belongs to a right axis, and there is none"):
        line_chart("Training", X, LOSSES, [ChartLine("right", [(1, 1)], GREEN, "right")])


def test_bars_stand_on_their_edges_with_the_outline_on_top() -> None:
    filled, outline = (
        Bars("reference", [0, 4, 0, 0], GREEN),
        Bars("generated", [0, 0, 0, 2], ORANGE, filled=False),
    )
    image = histogram_chart("Bonds", "bond length", "bonds", [0, 1, 2, 3, 4], [outline, filled], note="3 outside")
    green = [(x, y) for x, y in in_plot(places(image, GREEN)) if y < 460]
    quarter = (WIDTH - 92 - 30) / 4
    assert 92 + quarter - 4 < min(x for x, _ in green) and max(x for x, _ in green) < 92 + 2 * quarter + 4
    assert len(green) > 0.9 * quarter * (max(y for _, y in green) - min(y for _, y in green))
    assert max(y for x, y in green) - min(y for x, y in green) > 300
    orange = in_plot(places(image, ORANGE))
    assert max(x for x, _ in orange) > WIDTH - 40
    assert min(y for _, y in orange) > min(y for _, y in green) + 100


def test_counts_that_do_not_fit_the_edges_are_refused() -> None:
    with pytest.raises(ValueError, match="short: 3 edges need 2 counts"):
        histogram_chart("Bonds", "x", "y", [0, 1, 2], [Bars("short", [1], GREEN)])


def test_the_same_data_gives_the_same_picture() -> None:
    lines = [ChartLine("loss", [(0, 10), (3, 1), (10, 0.01)], BLUE)]
    first, again = (line_chart("Training", X, LOSSES, lines).tobytes() for _ in range(2))
    assert first == again
