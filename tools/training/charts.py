"""Two kinds of picture for a model card, drawn with Pillow alone: lines over two axes, and histograms.

Everything is drawn at three times its size and scaled down, which smooths lines and letters. Values that are not
finite are left out, and so are those that a logarithmic axis has no place for. Text is ASCII: Pillow's own font has no
more. What this module does not know: models and trainings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#00855F", "#B9C2CC"
"""Told apart with every kind of colour vision, and legible on white."""
_INK, _FAINT, _PAPER = "#22272E", "#E4E7EB", "#FFFFFF"

WIDTH, HEIGHT = 960, 540
_SCALE = 3
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 92, 108, 72  # margins around the plot
_TITLE, _TEXT, _SMALL = 23, 17, 15  # sizes of letters

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ChartAxis:
    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False
    unit: str = ""  # behind each tick's number

    def share(self, value: float) -> float:
        """Where a value lies along the axis, from 0 to 1; what lies outside stays at its end."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, at = math.log10(low), math.log10(high), math.log10(at)
        return (at - low) / (high - low)

    def shows(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.is_log)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line and its name in the legend; ``marks`` puts a dot at each point."""

    name: str
    points: Sequence[Point]
    colour: str
    side: Literal["left", "right"] = "left"
    marks: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Counts of a histogram and their name in the legend; drawn filled, or as an outline over the others."""

    name: str
    counts: Sequence[int]
    colour: str
    filled: bool = True


def linear_axis(
    label: str, low: float, high: float, *, unit: str = "", ticks: int = 6, tight: bool = False
) -> ChartAxis:
    """Between round numbers around ``low`` and ``high``; ``tight`` ends it at the two themselves."""
    high = high if high > low else low + 1.0
    least = (high - low) / ticks
    power: float = 10.0 ** math.floor(math.log10(least))
    step = next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= least * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    places = tuple(round(number * step, 10) for number in range(first, last + 1))
    if tight:
        return ChartAxis(label, low, high, tuple(place for place in places if low <= place <= high), unit=unit)
    return ChartAxis(label, places[0], places[-1], places, unit=unit)


def log_axis(label: str, values: Iterable[float]) -> ChartAxis:
    """Around the positive ones of the values, with ticks at 1, 2 and 5 where they span little."""
    positive = [value for value in values if math.isfinite(value) and value > 0] or [1.0]
    low, high = min(positive) / 1.25, max(positive) * 1.25
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if math.log10(high / low) > 2.5 else (1, 2, 5)
    places = (float(f"{step}e{decade}") for decade in decades for step in steps)
    return ChartAxis(label, low, high, tuple(place for place in places if low <= place <= high), is_log=True)


def line_chart(
    title: str, x: ChartAxis, left: ChartAxis, lines: Sequence[ChartLine], *, right: ChartAxis | None = None
) -> Image.Image:
    plot = _Plot(title, x, left, right)
    plot.legend([(line.name, line.colour, "dots" if line.marks else "line") for line in lines])
    for line in lines:
        axis = left if line.side == "left" else right
        if axis is None:
            raise ValueError(f"{line.name} belongs to a right axis, and there is none")
        plot.line([point for point in line.points if x.shows(point[0]) and axis.shows(point[1])], axis, line)
    return plot.finished()


def histogram_chart(
    title: str, x_label: str, y_label: str, edges: Sequence[float], bars: Sequence[Bars], *, note: str = ""
) -> Image.Image:
    """Histograms over the same edges, one upon the other. ``note`` stands behind the legend."""
    wrong = [bar.name for bar in bars if len(bar.counts) != len(edges) - 1]
    if wrong:
        raise ValueError(f"{', '.join(wrong)}: {len(edges)} edges need {len(edges) - 1} counts")
    most = max((count for bar in bars for count in bar.counts), default=0)
    x = linear_axis(x_label, edges[0], edges[-1], ticks=9, tight=True)
    plot = _Plot(title, x, linear_axis(y_label, 0, max(most, 1)), None)
    plot.legend([(bar.name, bar.colour, "box" if bar.filled else "line") for bar in bars], note)
    for bar in sorted(bars, key=lambda bar: not bar.filled):
        plot.bars(edges, bar)
    return plot.finished()


class _Plot:
    """One picture in the making. Places are in pixels of the finished picture."""

    def __init__(self, title: str, x: ChartAxis, left: ChartAxis, right: ChartAxis | None) -> None:
        self._image = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), _PAPER)
        self._draw = ImageDraw.Draw(self._image)
        self._x, self._y = x, left
        self._box = (_LEFT, _TOP, WIDTH - (_RIGHT if right else _LEFT // 3), HEIGHT - _BOTTOM)
        self._text((_LEFT, 22), title, _TITLE, "lt")
        self._frame(right)

    def finished(self) -> Image.Image:
        return self._image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)

    def legend(self, entries: Sequence[tuple[str, str, str]], note: str = "") -> None:
        """Name, colour and sign of each, in one row above the plot."""
        at, middle = float(_LEFT), _TOP - 31
        for name, colour, sign in entries:
            if sign == "box":
                self._draw.rectangle(self._scaled((at, middle - 7), (at + 26, middle + 7)), fill=colour)
            else:
                self._stroke([(at, middle), (at + 26, middle)], colour, 2.5)
            if sign == "dots":
                self._dot((at + 13, middle), colour)
            self._text((at + 34, middle), name, _TEXT, "lm")
            at += 34 + self._width(name, _TEXT) + 30
        if note:
            self._text((at, middle), note, _SMALL, "lm")

    def line(self, points: Sequence[Point], axis: ChartAxis, line: ChartLine) -> None:
        places = [(self._across(x), self._up(y, axis)) for x, y in points]
        if len(places) > 1:
            self._stroke(places, line.colour, 2.5)
        for place in places if line.marks or len(places) == 1 else ():
            self._dot(place, line.colour)

    def bars(self, edges: Sequence[float], bars: Bars) -> None:
        floor = self._up(0, self._y)
        outline: list[Point] = [(self._across(edges[0]), floor)]
        for (low, high), count in zip(pairwise(edges), bars.counts, strict=True):
            left, right, top = self._across(low), self._across(high), self._up(count, self._y)
            outline += [(left, top), (right, top)]
            if bars.filled and count:
                self._draw.rectangle(self._scaled((left + 0.5, top), (right - 0.5, floor)), fill=bars.colour)
        if not bars.filled:
            self._stroke([*outline, (self._across(edges[-1]), floor)], bars.colour, 2.5)

    def _frame(self, right: ChartAxis | None) -> None:
        left_edge, _, right_edge, bottom = self._box
        for tick in self._y.ticks:
            height = self._up(tick, self._y)
            self._stroke([(left_edge, height), (right_edge, height)], _FAINT, 1)
            self._text((left_edge - 10, height), _tick_text(tick, self._y), _SMALL, "rm")
        if right:
            for tick in right.ticks:
                self._text((right_edge + 10, self._up(tick, right)), _tick_text(tick, right), _SMALL, "lm")
            self._upright(right.label, WIDTH - 20)
        for tick in self._x.ticks:
            place = self._across(tick)
            self._stroke([(place, bottom), (place, bottom + 5)], _INK, 1)
            self._text((place, bottom + 11), _tick_text(tick, self._x), _SMALL, "mt")
        self._stroke([(left_edge, bottom), (right_edge, bottom)], _INK, 1)
        self._text(((left_edge + right_edge) / 2, HEIGHT - 16), self._x.label, _TEXT, "ms")
        self._upright(self._y.label, 20)

    def _upright(self, text: str, at: float) -> None:
        """An axis label that reads from below, centred at this place across."""
        width, height = self._width(text, _TEXT) + 4, _TEXT * 2
        label = Image.new("L", (round(width * _SCALE), height * _SCALE), 0)
        ImageDraw.Draw(label).text((label.width / 2, label.height / 2), text, fill=255, font=_font(_TEXT), anchor="mm")
        turned = label.rotate(90, expand=True)
        middle = (_TOP + HEIGHT - _BOTTOM) / 2 * _SCALE
        place = (round(at * _SCALE - turned.width / 2), round(middle - turned.height / 2))
        self._image.paste(Image.new("RGB", turned.size, _INK), place, turned)

    def _across(self, value: float) -> float:
        return self._box[0] + self._x.share(value) * (self._box[2] - self._box[0])

    def _up(self, value: float, axis: ChartAxis) -> float:
        return self._box[3] - axis.share(value) * (self._box[3] - self._box[1])

    def _stroke(self, places: Sequence[Point], colour: str, width: float) -> None:
        self._draw.line(self._scaled(*places), fill=colour, width=round(width * _SCALE), joint="curve")

    def _dot(self, place: Point, colour: str) -> None:
        x, y = place
        self._draw.ellipse(self._scaled((x - 4.5, y - 4.5), (x + 4.5, y + 4.5)), fill=colour)

    def _text(self, place: Point, text: str, size: int, anchor: str) -> None:
        self._draw.text(self._scaled(place)[0], text, fill=_INK, font=_font(size), anchor=anchor)

    def _width(self, text: str, size: int) -> float:
        return _font(size).getlength(text) / _SCALE

    def _scaled(self, *places: Point) -> list[Point]:
        return [(x * _SCALE, y * _SCALE) for x, y in places]


def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size * _SCALE)
    assert isinstance(font, ImageFont.FreeTypeFont)  # Pillow's wheels are built with FreeType
    return font


def _tick_text(tick: float, axis: ChartAxis) -> str:
    text = f"{tick:.10f}".rstrip("0").rstrip(".")
    if not axis.is_log:  # as many decimals as its neighbours have
        decimals = max(len(f"{other:.10f}".rstrip("0").partition(".")[2]) for other in axis.ticks)
        text = f"{tick:,.{decimals}f}"
    return f"{text}{axis.unit}"
