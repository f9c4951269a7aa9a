"""The course of a training, out of its ``log.jsonl``, and its picture.

What this module does not know: which model was trained, and what became of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from engine.errors import FileFormatError
from engine.training.charts import BLUE, GREEN, ORANGE, Line, line_chart, linear_axis, log_axis

Course = list[tuple[int, float]]
"""Tokens seen, and the value then."""


@dataclass(slots=True)
class Curve:
    """Each figure against tokens seen, in their order."""

    structure_nat: Course = field(default_factory=list)
    numbers_nat: Course = field(default_factory=list)
    pass_rate: Course = field(default_factory=list)

    def last(self) -> dict[str, float | None]:
        """The last value of each; None where there is none."""
        return {name: course[-1][1] if course else None for name, course in self._courses()}

    def add(self, entry: dict[str, Any]) -> None:
        tokens = int(entry["tokens"])
        for name, course in self._courses():
            while course and course[-1][0] > tokens:
                course.pop()  # the training was stopped, and taken up from a checkpoint before this
            if name in entry and math.isfinite(entry[name]):
                course.append((tokens, float(entry[name])))

    def _courses(self) -> Iterator[tuple[str, Course]]:
        for name in self.__slots__:
            yield name, getattr(self, name)


def read_curve(path: Path, most_tokens: int | None = None) -> Curve:
    """The course up to ``most_tokens``. A last line that was not written to its end is left out."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"the training log {path} cannot be read: {error}", "Give the log.jsonl of it") from error
    curve = Curve()
    for number, line in enumerate(lines[:-1], start=1):  # behind the last line break there is nothing, or half a line
        try:
            entry = json.loads(line)
            if most_tokens is None or entry["tokens"] <= most_tokens:
                curve.add(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"line {number} of {path} is no line of a training log ({error})", "Remove the line"
            ) from error
    return curve


def curve_chart(title: str, curve: Curve) -> Image.Image:
    """Both losses on a logarithmic axis, and the share of held-out molecules copied right on another."""
    structure, numbers, rates = (_in_millions(one) for one in (curve.structure_nat, curve.numbers_nat, curve.pass_rate))
    seen = [*structure, *numbers, *rates, (0.0, 0.0)]
    return line_chart(
        title,
        linear_axis("million tokens seen", 0, max(tokens for tokens, _ in seen), ticks=8, tight=True),
        log_axis("loss, nat a token", [loss for _, loss in [*structure, *numbers]]),
        [
            Line("structure loss", structure, BLUE),
            Line("number loss", numbers, ORANGE),
            Line("held-out molecules copied right", [(x, 100 * y) for x, y in rates], GREEN, "right", marks=True),
        ],
        right=linear_axis("held-out molecules copied right", 0, 100, unit=" %", ticks=5),
    )


def _in_millions(course: Course) -> list[tuple[float, float]]:
    return [(tokens / 1e6, value) for tokens, value in course]
