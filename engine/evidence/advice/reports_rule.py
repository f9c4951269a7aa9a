"""The reports' rule beside the advice: use an LP when the model breaks structure without it, skip it when it does not.

The rule looks at the pass rate without an LP alone. The reports give two cases and no threshold, so the one that the
advice itself asks for stands in. What it knows nothing of: which LP, what an LP costs, what it leaves of the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from engine.evidence.advice.figures import BASE, Measured, Want
from engine.evidence.advice.rule import Decision
from engine.evidence.advice.words import name_of, number, percent
from engine.inspection.statistics import Interval

Says = Literal["use an LP", "no LP", "open", "unknown"]
MADE_FOR = "position-blocklist"
"""The reports' own LP, which their rule was drawn from."""
THE_RULE = "Use an LP when the model breaks structure without it, and leave it out when it does not."


@dataclass(frozen=True, slots=True)
class ReportsRule:
    says: Says
    pass_rate: Interval | None  # without an LP
    agrees: bool | None  # None where one of the two says nothing
    sentence: str


def reports_rule(measured: Measured, decision: Decision, want: Want, least: float) -> ReportsRule:
    if BASE not in measured.names:
        words = "The reports' rule cannot be asked: nothing was measured without an LP."
        return ReportsRule("unknown", None, None, words)
    rate = measured.figures(BASE).pass_rate
    says = _says(rate, least)
    agrees = _agrees(says, decision)
    heard = {
        "use an LP": "the model breaks structure without an LP, so the rule says to use one",
        "no LP": "the model keeps structure without an LP, so the rule says to leave it out",
        "open": f"that may be above or below {100 * least:g} %, so what the rule says is open",
    }[says]
    sentence = f"Without an LP {percent(rate)} of answers pass: {heard}."
    return ReportsRule(says, rate, agrees, " ".join([sentence, *_beside(says, agrees, decision, measured, want)]))


def _says(rate: Interval, least: float) -> Says:
    if rate.low is not None and rate.low >= least:
        return "no LP"
    return "use an LP" if rate.high is not None and rate.high < least else "open"


def _agrees(says: Says, decision: Decision) -> bool | None:
    if not decision.lp or says == "open":
        return None
    advised = {decision.lp, *decision.ties}
    return BASE in advised if says == "no LP" else bool(advised - {BASE})


def _beside(says: Says, agrees: bool | None, decision: Decision, measured: Measured, want: Want) -> list[str]:
    found = []
    if agrees is not None:
        found.append(
            "The measured costs agree."
            if agrees
            else f"The measured costs do not agree: {_cost(decision, measured, want)}"
        )
    if says == "use an LP" and MADE_FOR in measured.names:
        one = measured.figures(MADE_FOR)
        rate = percent(one.clean_rate)
        found.append(f"It does not say which LP: {MADE_FOR}, which it was drawn from, gives {rate} clean answers.")
    return found


def _cost(decision: Decision, measured: Measured, want: Want) -> str:
    mine, base = (measured.figures(lp).cost(want).value for lp in (decision.lp, BASE))
    if decision.lp == BASE or not math.isfinite(base):
        return f"{name_of(decision.lp)} is the cheapest that fits."
    return f"{name_of(decision.lp)} gives a {want} conformer in {number(mine / base)}× the time."
