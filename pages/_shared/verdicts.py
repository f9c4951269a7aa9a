"""What verdicts on claims look like: a sign and a badge's colour each, since colour does not stand alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.evidence.checks import VerdictName


@dataclass(frozen=True, slots=True)
class Look:
    sign: str
    badge: Literal["green", "red", "yellow", "blue", "gray"]
    means: str


LOOKS: dict[VerdictName, Look] = {
    "reproduced": Look("✓", "green", "the same figure here, within the rounding of the report"),
    "contradicted": Look("✗", "red", "another figure here, or the statement does not hold"),
    "internally inconsistent": Look("≠", "yellow", "the reports give two values for one thing"),
    "not shown on these models": Look(
        "∼", "blue", "it is about other models: on those that are measured here it does not show"
    ),
    "not testable here": Look("?", "gray", "it needs a run, a trace, texts or a measurement that is missing here"),
}


def look_of(name: VerdictName) -> Look:
    return LOOKS[name]
