"""What verdicts on claims look like: a sign, a badge's colour and a fill pattern each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.evidence.checks import VerdictName
from pages._shared.theme import Palette

Badge = Literal["green", "red", "yellow", "blue", "gray"]


@dataclass(frozen=True, slots=True)
class Look:
    """``sign`` and ``pattern`` tell verdicts apart where colour does not."""

    sign: str
    badge: Badge
    pattern: str
    means: str


LOOKS: dict[VerdictName, Look] = {
    "reproduced": Look("✓", "green", "", "the same figure here, within the rounding of the report"),
    "contradicted": Look("✗", "red", "x", "another figure here, or the statement does not hold"),
    "internally inconsistent": Look("≠", "yellow", "/", "the reports give two values for one thing"),
    "not shown on these models": Look(
        "∼", "blue", "\\", "it is about other models: on those that are measured here it does not show"
    ),
    "not testable here": Look("?", "gray", ".", "it needs a run, a trace, texts or a measurement that is missing here"),
}
UNJUDGED = Look("–", "gray", "", "not checked yet")
UNJUDGED_WORD = "not checked yet"


def look_of(name: VerdictName | None) -> Look:
    return UNJUDGED if name is None else LOOKS[name]


def word_of(name: VerdictName | None) -> str:
    return name or UNJUDGED_WORD


def colour_of(name: VerdictName | None, colours: Palette) -> str:
    fills = {
        "green": colours.exact,
        "red": colours.cut,
        "yellow": colours.series[-1],
        "blue": colours.series[0],
        "gray": colours.neutral,
    }
    return fills[look_of(name).badge]
