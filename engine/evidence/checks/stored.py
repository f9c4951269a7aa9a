"""Checks by one SELECT over stored runs, as anybody can run it with ``python -m engine sql``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.evidence.checks.finding import Basis, Finding, beside_reported, held_against, on_these_models, said
from engine.evidence.claims import Claim
from engine.evidence.formula import Range

LABEL = "ships with the project"
DEMO = f"origin = 'measured' AND label = '{LABEL}'"
"""What ``{demo}`` in a claim's SQL stands for: the measured runs that ship."""


def is_asked(row: Mapping[str, Any]) -> bool:
    """Whether some claim's query may meet this run: one that ships, or one like the reports' own."""
    return row.get("origin") != "reported" and (row.get("label") == LABEL or "H100" in (row.get("device") or ""))


def is_trace_asked(row: Mapping[str, Any]) -> bool:
    """Whether some claim's query may meet this trace: one like the reports' own."""
    return row.get("origin") != "reported" and "H100" in f"{row.get('device')} {row.get('label')}"


def written_out(text: str) -> str:
    """The SQL of a claim as it can be run."""
    return " ".join(text.replace("{demo}", DEMO).split())


def sql(claim: Claim, basis: Basis) -> Finding:
    """One row with ``measured``, or with ``holds``; ``says`` tells its columns in words."""
    query = written_out(claim.arguments["sql"])
    rows = basis.rows(query)
    row: dict[str, Any] = rows[0] if rows else {}
    key = "holds" if "holds" in row else "measured"
    if row.get(key) is None:
        reason = "The store does not hold the runs that the query asks for."
        return Finding("not testable here", None, reason, query, "store")
    measured = None if row.get("measured") is None else float(row["measured"])
    words = {name: str(value) if isinstance(value, str | bool) else said(float(value)) for name, value in row.items()}
    reason = f"{claim.arguments['says'].format(**words)}."
    if key == "holds":
        verdict = on_these_models(claim, "reproduced" if row["holds"] else "contradicted")
        return Finding(verdict, measured, reason, query, "store", words)
    verdict = on_these_models(claim, held_against(claim, Range.exact(float(row["measured"]))))
    return Finding(verdict, measured, f"{reason[:-1]}{beside_reported(claim)}.", query, "store", words)
