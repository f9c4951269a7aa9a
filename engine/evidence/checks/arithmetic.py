"""Checks that take nothing but the reports' own figures: formulas over them, and one figure in several places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from engine.errors import FileFormatError
from engine.evidence.checks.finding import (
    Basis,
    Finding,
    VerdictName,
    beside_reported,
    held_against,
    on_these_models,
    said,
    with_unit,
)
from engine.evidence.checks.missing import needs
from engine.evidence.claims import Claim
from engine.evidence.formula import Range, evaluate, figures_of, with_figures
from engine.figures.statistics import spearman

CHANCE = 0.05
"""A rank correlation that so many of all orders reach is taken for chance."""


def formula(claim: Claim, basis: Basis) -> Finding:
    """The claim's figure against a formula over figures of reports.

    With ``inside = true`` a contradiction is one within the reports' own counts of the same thing. What the formula
    gives again may still have another figure elsewhere (``others``: ids).
    """
    outcome = evaluate(claim.arguments["formula"], basis.figures(), claim.arguments.get("where"))
    if not isinstance(outcome, Range):
        raise FileFormatError(f"the formula of {claim.id} is a comparison", "Use the check `holds`")
    verdict = _inside(claim, held_against(claim, outcome))
    of = figures_of(claim.arguments["formula"])
    if claim.arguments["formula"] == "".join(f"{{{id_}}}" for id_ in of) and of[0] in basis.claims:
        other = basis.claims[of[0]]
        reason = (
            f"Report {other.report}, {other.section}: {with_unit(other.reported, other.unit)}{beside_reported(claim)}."
        )
    else:
        reason = f"{_written(claim, basis)} = {said(outcome.value)}{beside_reported(claim)}."
    apart = _apart(claim, basis)
    if apart and verdict == "reproduced":
        verdict, reason = "internally inconsistent", f"{reason} Another figure stands elsewhere: {_places(apart)}."
    return Finding(verdict, outcome.value, reason, _query(claim), "arithmetic", _words(claim, basis))


def holds(claim: Claim, basis: Basis) -> Finding:
    """Whether a comparison of figures holds. ``measure``, a formula too, is the figure to show, in ``unit``.

    ``says`` tells the words of ``where``, and that they are figures of the experiment `lost-third`.
    """
    where = claim.arguments.get("where")
    if missing := _not_measured(claim, basis):
        reason = f"Needs the result of `make lost-third MODEL={missing}`, which is not here."
        return Finding("not testable here", None, reason, _query(claim), "none")
    outcome = evaluate(claim.arguments["formula"], basis.figures(), where)
    if isinstance(outcome, Range):
        raise FileFormatError(f"the formula of {claim.id} is a number", "Use the check `formula`")
    measured = None
    if "measure" in claim.arguments:
        shown = evaluate(claim.arguments["measure"], basis.figures(), where)
        measured = shown.value if isinstance(shown, Range) else None
    verdict, words = _inside(claim, "reproduced" if outcome else "contradicted"), _words(claim, basis)
    unit = claim.arguments.get("unit", "")
    if "says" in claim.arguments:  # figures of `lost-third`
        reason = f"{claim.arguments['says'].strip().format(**words)}."
        return Finding(on_these_models(claim, verdict), measured, reason, _query(claim), "experiment", words, unit)
    reason = f"{_written(claim, basis)} {'holds' if outcome else 'does not hold'}."
    return Finding(verdict, measured, reason, _query(claim), "arithmetic", words, unit)


def agree(claim: Claim, basis: Basis) -> Finding:
    """Whether other places give the same figure (``others``: ids). Where they do, it is told what a test would need."""
    apart = _apart(claim, basis)
    others = [basis.claims[id_] for id_ in claim.arguments["others"]]
    query = " == ".join(f"{{{other.id}}}" for other in (claim, *others))
    places = _places([claim, *(apart or others)])
    if apart:
        widest = max(apart, key=lambda other: abs(other.range.value - claim.range.value))
        figures = len({place.reported for place in (claim, *apart)})
        reason = f"One thing, {_COUNTS.get(figures, str(figures))} figures: {places}."
        return Finding("internally inconsistent", widest.value, reason, query, "reports")
    missing = needs(claim, basis)
    return replace(missing, reason=f"{missing.reason} The reports agree: {places}.")


def unrelated(claim: Claim, basis: Basis) -> Finding:
    """Whether two rows of figures (``one`` and ``other``: ids) show no rank correlation, beside all orders of one."""
    one, other = (
        np.array([basis.claims[id_].range.value for id_ in claim.arguments[side]]) for side in ("one", "other")
    )
    found = spearman(one, other)
    orders = [spearman(one, other[list(order)]) for order in permutations(range(len(other)))]
    chance = float(np.mean(np.abs(orders) >= abs(found) - 1e-12))
    reason = (
        f"Spearman's correlation of the {len(one)} pairs is {found:.2f}; {chance:.0%} of all orders reach that, "
        "which so few pairs can neither prove nor refute."
    )
    verdict: VerdictName = "reproduced" if chance > CHANCE else "contradicted"
    query = f"spearman({', '.join(claim.arguments['one'])}; {', '.join(claim.arguments['other'])})"
    return Finding(verdict, found, reason, query, "arithmetic")


def _not_measured(claim: Claim, basis: Basis) -> str:
    """The model of the first figure of the experiment that is not there; empty where all are."""
    named = [id_ for text in (claim.arguments.get("where") or {}).values() for id_ in figures_of(text) if "/" in id_]
    return next((id_.partition("/")[0] for id_ in named if id_ not in basis.experiment), "")


_COUNTS = {2: "two", 3: "three", 4: "four"}


def _apart(claim: Claim, basis: Basis) -> list[Claim]:
    """Those of the ``others`` whose figures rounding cannot bring together with the claim's."""
    others = [basis.claims[id_] for id_ in claim.arguments.get("others", ())]
    return [other for other in others if not claim.range.meets(other.range)]


def _places(claims: Sequence[Claim]) -> str:
    return "; ".join(f"report {claim.report}, {claim.section}: {claim.reported}" for claim in claims)


def _inside(claim: Claim, verdict: VerdictName) -> VerdictName:
    return "internally inconsistent" if verdict == "contradicted" and claim.arguments.get("inside") else verdict


def _written(claim: Claim, basis: Basis) -> str:
    """The formula with its figures, and before it what its words stand for."""
    where, words = claim.arguments.get("where", {}), _words(claim, basis)
    parts = [f"{name} = {_with_figures(part, basis)} = {words[name]}" for name, part in where.items()]
    return "; ".join([*parts, _with_figures(claim.arguments["formula"], basis)])


def _words(claim: Claim, basis: Basis) -> dict[str, str]:
    """What the words of the formula come to."""
    figures, known, words = basis.figures(), dict[str, str](), dict[str, str]()
    for name, part in claim.arguments.get("where", {}).items():
        outcome = evaluate(part, figures, known)
        known[name] = part
        words[name] = said(outcome.value) if isinstance(outcome, Range) else str(outcome)
    return words


def _with_figures(text: str, basis: Basis) -> str:
    figures = basis.figures()
    return with_figures(text, {id_: said(figures[id_].value) for id_ in figures_of(text)})


def _query(claim: Claim) -> str:
    """The formula as data has it, after what its words stand for."""
    where = claim.arguments.get("where", {})
    return "; ".join([*(f"{name} = {part}" for name, part in where.items()), claim.arguments["formula"]])
