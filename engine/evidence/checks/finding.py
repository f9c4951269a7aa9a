"""What a check is given and what it gives back, and the words that figures are told in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from engine.evidence.claims import Claim
from engine.evidence.formula import Range

VerdictName = Literal[
    "reproduced", "contradicted", "internally inconsistent", "not shown on these models", "not testable here"
]
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
Source = Literal["tokenizers", "arithmetic", "store", "experiment", "reports", "lp tables", "none"]


@dataclass(frozen=True, slots=True)
class Basis:
    """All claims by id, what answers SQL over the runs that a claim may be about, and figures of `lost-third`."""

    claims: Mapping[str, Claim]
    rows: Callable[[str], list[dict[str, Any]]]
    experiment: Mapping[str, Range] = field(default_factory=dict)

    def figures(self) -> dict[str, Range]:
        """Every claim's figure that there is to compute with; ``id.1`` is the next of its ``values``, as it stands."""
        claims = [claim for claim in self.claims.values() if None not in (claim.value, claim.least, claim.most)]
        parts = {f"{claim.id}.{at}": Range.exact(value) for claim in claims for at, value in enumerate(claim.values)}
        return {**parts, **{claim.id: claim.range for claim in claims}, **self.experiment}


@dataclass(frozen=True, slots=True)
class Finding:
    """``words`` are figures by the names that a claim's note may use in braces; without ``unit`` it is the claim's."""

    verdict: VerdictName
    measured: float | None
    reason: str
    query: str
    source: Source
    words: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""


Check = Callable[[Claim, Basis], Finding]


def held_against(claim: Claim, measured: Range) -> VerdictName:
    """Whether a measured figure can be the claim's."""
    least = -math.inf if claim.least is None else claim.least
    most = math.inf if claim.most is None else claim.most
    middle = min(max(measured.value, least), most)
    return "reproduced" if measured.meets(Range(least, middle, most)) else "contradicted"


def fallen_by(claim: Claim, measured: float) -> VerdictName | None:
    """The verdict on a claim that falls where ``measured`` lies in its ``refuted_by``; None where it has none."""
    if "refuted_by" not in claim.arguments:
        return None
    least, most = claim.arguments["refuted_by"]
    return "contradicted" if least <= measured <= most else "reproduced"


def on_these_models(claim: Claim, verdict: VerdictName) -> VerdictName:
    """What a statement about the group's own models comes to (``of_theirs``): other models do not contradict it."""
    return "not shown on these models" if verdict == "contradicted" and claim.arguments.get("of_theirs") else verdict


def said(value: float) -> str:
    """A figure for people: thousands apart, four digits that count, no zeros behind the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_unit(value: str, unit: str) -> str:
    return f"{value} {unit}" if unit else value


def beside_reported(claim: Claim) -> str:
    """`; the report has 3.51`, for the end of a sentence; nothing where it gives no figure."""
    return f"; the report has {with_unit(claim.reported, claim.unit)}" if claim.reported else ""
