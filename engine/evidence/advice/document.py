"""An advice as one JSON document, for `advise --json` and for the page's download. These keys stay.

An interval is ``{value, low, high}``: null where it is not known or there are too few molecules, ``inf`` where it is
infinite (no wanted answer, or none in more than one draw in forty).

| key | what |
|---|---|
| ``model``, ``setting`` | alias:step; sampling, batch, backend, device and the rest that all runs here share |
| ``want``, ``least`` | usable, clean or passed; the least rate that fits |
| ``verdict`` | one, tie, none fits, or too little |
| ``lp``, ``ties[]`` | what is advised, null where nothing is; what costs the same within noise |
| ``cheapest``, ``sureness`` | LP of the cheapest wanted conformer; share of draws in which the advised wins |
| ``sentence``, ``rule``, ``cautions[]``, ``unknown[]`` | words |
| ``reports`` | ``says`` (use an LP, no LP, open, unknown), ``agrees``, ``pass_rate`` without an LP, ``sentence``, |
| | ``detail``: what their rule leaves out |
| ``molecules``, ``heavy_atoms[]`` | shared by all runs; those of the smallest and the largest |
| ``lps[]`` | one object an LP: ``lp``, ``run_id``, counts, intervals, ``fits``, ``wins``, ``over_least``, ``reason``, |
| | ``expected`` with ``molecules``, ``seconds`` and ``usable`` (as wanted) where a number of molecules was given |
| ``missing[]``, ``commands[]`` | LPs without a run, and what to type |
| ``others[]``, ``left_out[]`` | runs of other settings, and other runs that were not used |
"""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any

from engine.evidence.advice.figures import LpFigures
from engine.evidence.advice.rule import Standing
from engine.evidence.advisor import Advice
from engine.figures.statistics import Interval


def document(advice: Advice, molecules: int | None = None) -> dict[str, Any]:
    """With ``molecules``, each LP also has its expected seconds and usable answers for so many molecules."""
    decision, reports = advice.decision, advice.reports
    rows = zip(advice.measured.lps, decision.standings, advice.reasons, strict=True)
    return {
        "model": advice.model,
        "setting": asdict(advice.setting),
        "want": advice.want,
        "least": advice.request.least,
        "verdict": decision.verdict,
        "lp": decision.lp or None,
        "ties": list(decision.ties),
        "cheapest": decision.cheapest or None,
        "sureness": decision.sureness,
        "sentence": advice.sentence,
        "rule": advice.rule,
        "reports": {
            "says": reports.says,
            "agrees": reports.agrees,
            "pass_rate": _value(reports.pass_rate),
            "sentence": reports.sentence,
            "detail": reports.detail,
        },
        "molecules": advice.measured.molecules,
        "heavy_atoms": list(advice.measured.heavy_atoms or ()),
        "lps": [_row(advice, figures, standing, reason, molecules) for figures, standing, reason in rows],
        "cautions": list(advice.cautions),
        "unknown": list(advice.unknown),
        "missing": list(advice.missing),
        "commands": list(advice.commands),
        "others": [
            {"setting": asdict(other.setting), "runs": other.runs, "lps": list(other.lps), "differs": other.differs}
            for other in advice.others
        ],
        "left_out": list(advice.left_out),
    }


def _row(advice: Advice, figures: LpFigures, standing: Standing, reason: str, molecules: int | None) -> dict[str, Any]:
    row = {part.name: _value(getattr(figures, part.name)) for part in fields(figures)}
    row |= {"fits": standing.fits, "wins": standing.wins, "over_least": _value(standing.over_least), "reason": reason}
    if molecules is not None:
        expected_s, usable = advice.expected_s(figures, molecules), advice.expected_usable(figures, molecules)
        row["expected"] = {"molecules": molecules, "seconds": expected_s, "usable": usable}
    return row


def _value(value: object) -> Any:
    if isinstance(value, Interval):
        return {name: _value(getattr(value, name)) for name in ("value", "low", "high")}
    return "inf" if isinstance(value, float) and math.isinf(value) else value
