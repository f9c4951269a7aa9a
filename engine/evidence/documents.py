"""A claim with its verdict as one flat document, for files and for the terminal's JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.evidence.claims import Claim
from engine.evidence.verdicts import Verdict

FLAT = (
    "claim_id",
    "report",
    "section",
    "also",
    "statement",
    "subject",
    "reported",
    "unit",
    "least",
    "value",
    "most",
    "verdict",
    "measured",
    "source",
    "reason",
    "check",
    "query",
    "highlight",
)
"""The columns of a table of claims, in order."""


def document(claim: Claim, verdict: Verdict | None) -> dict[str, Any]:
    """All that is known of a claim; the keys of a verdict are None where nobody has judged it."""
    said = {"report": claim.report, "section": claim.section, "also": list(claim.also), "statement": claim.statement}
    figures = {"subject": claim.subject, "reported": claim.reported, "value": claim.value, "values": list(claim.values)}
    ends = {"least": claim.least, "most": claim.most, "highlight": claim.highlight}
    how = {"check": claim.check, "arguments": dict(claim.arguments)}
    unjudged = {"verdict": None, "measured": None, "reason": None, "query": None, "source": None}
    judged = unjudged if verdict is None else asdict(verdict)
    return said | figures | ends | how | {"claim_id": claim.id, "unit": claim.unit} | judged


def flat(claim: Claim, verdict: Verdict | None) -> list[Any]:
    """The document as a row of ``FLAT``."""
    told = document(claim, verdict) | {"also": "; ".join(claim.also)}
    return [told[name] for name in FLAT]
