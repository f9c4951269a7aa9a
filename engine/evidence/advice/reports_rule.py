"""The reports' rule beside the advice: use an LP when the model breaks structure without it, skip it when it does not.

The rule uses the pass rate without an LP only. The reports give two cases and no threshold, so the advice's own
threshold is used. It does not know which LP to use, what an LP costs, or how many blocks it damages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.evidence.advice.figures import BASE, Measured, Want
from engine.evidence.advice.rule import Decision
from engine.evidence.advice.words import beside_base, cost_words, name_of
from engine.figures.statistics import Interval
from engine.figures.words import percent, with_interval

Says = Literal["use an LP", "no LP", "open", "unknown"]
MADE_FOR = "group-v2.1"
"""The reports' own LP, which their rule was drawn from."""


LOOKS = "It looks at this pass rate alone, not at time or at molecules."


@dataclass(frozen=True, slots=True)
class ReportsRule:
    says: Says
    pass_rate: Interval | None  # without an LP
    agrees: bool | None  # None where one of the two says nothing
    sentence: str
    detail: str = ""  # what the rule leaves out


def reports_rule(measured: Measured, decision: Decision, want: Want, least: float) -> ReportsRule:
    if BASE not in measured.names:
        return ReportsRule("unknown", None, None, "It does not apply: nothing was measured without an LP.")
    rate = measured.figures(BASE).pass_rate
    says: Says = "open"
    rule = f"It leaves this open, {100 * least:g} % being within the uncertainty"
    if rate.low is not None and rate.low >= least:
        says, rule = "no LP", "Use no LP"
    elif rate.high is not None and rate.high < least:
        says, rule = "use an LP", "Use an LP"
    sentences, agrees = [f"{rule}: without one, {with_interval(rate, percent)} of answers pass."], None
    if decision.lp and says != "open":
        advised = {decision.lp, *decision.ties}
        agrees = BASE in advised if says == "no LP" else bool(advised - {BASE})
        sentences.append(_costs(measured, decision, want, agrees))
    details = [LOOKS]
    if agrees is None:
        sentences, details = [*sentences, LOOKS], []
    if says == "use an LP" and MADE_FOR in measured.names:
        clean = with_interval(measured.figures(MADE_FOR).clean_rate, percent)
        details.append(f"It does not say which LP: {MADE_FOR}, which it was drawn from, gives {clean} clean answers.")
    return ReportsRule(says, rate, agrees, " ".join(sentences), " ".join(details))


def _costs(measured: Measured, decision: Decision, want: Want, agrees: bool) -> str:
    if agrees:
        return "The measured costs agree."
    figures = measured.figures(decision.lp)
    cost = f"{name_of(figures.lp)} takes {cost_words(figures.cost(want))} per {want} conformer"
    return f"The measured costs do not agree: {cost}{beside_base(figures, measured, want) or ', the least that fits'}."
