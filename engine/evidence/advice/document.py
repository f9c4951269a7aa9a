"""An advice as one JSON document, for `advise --json` and for the page's download. These keys stay.

An interval is ``{value, low, high}``: null where nobody knows or too few molecules tell, the text ``inf`` where it is
infinite (no usable answer, or none in more than one draw in forty).

| key | what |
|---|---|
| ``model``, ``setting`` | alias:step; sampling, batch, backend, device and the rest that all runs here share |
| ``want``, ``least`` | clean or passed; the least rate that fits |
| ``verdict`` | one, tie, none fits, or too little |
| ``lp``, ``ties[]`` | what is advised, null where nothing is; what costs the same within noise |
| ``cheapest``, ``sureness`` | LP of the cheapest usable conformer; share of draws in which the advised wins |
| ``sentence``, ``rule``, ``cautions[]``, ``unknown[]`` | words |
| ``reports`` | ``says`` (use an LP, no LP, open, unknown), ``agrees``, ``pass_rate`` without an LP, ``sentence`` |
| ``molecules``, ``heavy_atoms[]`` | shared by all runs; those of the smallest and the largest |
| ``lps[]`` | one object an LP: ``lp``, ``run_id``, counts, intervals, ``fits``, ``wins``, ``over_least``, ``reason``, |
| | ``expected`` with ``molecules``, ``seconds`` and ``usable`` where a number of molecules was given |
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
from engine.inspection.statistics import Interval


def document(advice: Advice, molecules: int | None = None) -> dict[str, Any]:
    """``molecules``: how many the reader means to write; None leaves what to expect out."""
    decision, reports = advice.decision, advice.reports
    rows = zip(advice.measured.lps, decision.standings, advice.reasons, strict=True)
    return {
        "model": advice.model,
        "setting": asdict(advice.setting),
        "want": advice.asked.want,
        "least": advice.asked.least,
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
        },
        "molecules": advice.measured.molecules,
        "heavy_atoms": list(advice.measured.heavy_atoms or ()),
        "lps": [_row(advice, one, standing, reason, molecules) for one, standing, reason in rows],
        "cautions": list(advice.cautions),
        "unknown": list(advice.unknown),
        "missing": list(advice.missing),
        "commands": list(advice.commands),
        "others": [
            {"setting": asdict(one.setting), "runs": one.runs, "lps": list(one.lps), "differs": one.differs}
            for one in advice.others
        ],
        "left_out": list(advice.left_out),
    }


def _row(advice: Advice, one: LpFigures, standing: Standing, reason: str, molecules: int | None) -> dict[str, Any]:
    found = {part.name: _value(getattr(one, part.name)) for part in fields(one)}
    found |= {"fits": standing.fits, "wins": standing.wins, "over_least": _value(standing.over_least), "reason": reason}
    if molecules is not None:
        expected_s, usable = advice.expected_s(one, molecules), advice.expected_usable(one, molecules)
        found["expected"] = {"molecules": molecules, "seconds": expected_s, "usable": usable}
    return found


def _value(value: object) -> Any:
    if isinstance(value, Interval):
        return {"value": _finite(value.value), "low": _finite(value.low), "high": _finite(value.high)}
    return _finite(value) if isinstance(value, float) else value


def _finite(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value
