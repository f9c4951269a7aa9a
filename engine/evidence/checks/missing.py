"""Checks of claims that only an input from outside can decide: they look whether it is here, and say what is not."""

from __future__ import annotations

from collections.abc import Callable

from engine.evidence.checks.finding import Basis, Finding, beside_reported, held_against, said
from engine.evidence.claims import Claim
from engine.evidence.formula import Range


def needs(claim: Claim, basis: Basis) -> Finding:
    """``needs`` names the kind of input; the rest of the arguments says which one."""
    return _KINDS[claim.arguments["needs"]](claim, basis)


def _run(claim: Claim, basis: Basis) -> Finding:
    """A run of the reports' own, imported or measured: with it here, ``column`` is compared."""
    given = claim.arguments
    where = [
        "origin <> 'reported'",
        f"model_family = '{given['family']}'",
        f"lp {'=' if given['lp'] == 'none' else '<>'} 'none'",
        f"samples >= {given['samples']}",
        "device LIKE '%H100%'",
    ]
    column = given.get("column", "wall_s")
    query = f"SELECT {column} AS measured, run_id FROM runs WHERE {' AND '.join(where)} ORDER BY created_at LIMIT 1"
    rows = basis.rows(query)
    if rows and rows[0]["measured"] is not None:
        measured = Range.exact(float(rows[0]["measured"]))
        reason = f"{rows[0]['run_id']} has {said(measured.value)}{beside_reported(claim)}."
        return Finding(held_against(claim, measured), measured.value, reason, query, "store")
    how = "without an LP" if given["lp"] == "none" else "with its LP"
    which = f"{given['family']} {how} on {given['samples']:,} samples on an H100"
    return _untestable(f"Needs the run of {which}; the store holds none that was imported or measured.", query)


def _trace(claim: Claim, basis: Basis) -> Finding:
    """A profile of the GPU's work."""
    reason = f"Needs the GPU trace of {claim.arguments['of']}; this check has none to look at."
    return _untestable(reason, "needs a trace")


def _texts(claim: Claim, basis: Basis) -> Finding:
    """The generated texts of a reported run."""
    family = claim.arguments["family"]
    query = (
        "SELECT count(*) AS texts FROM samples JOIN runs USING (run_id) "
        f"WHERE origin = 'imported' AND model_family = '{family}' AND device LIKE '%H100%'"
    )
    texts = basis.rows(query)[0]["texts"]
    reason = f"Needs the texts that the reports' {family} wrote on an H100; the store holds {texts:,} imported ones."
    return _untestable(reason, query)


def _other(claim: Claim, basis: Basis) -> Finding:
    """An input that this program has no place for; ``of`` says which."""
    return _untestable(f"Needs {claim.arguments['of']}, and nothing of that sort is kept here.", "needs another input")


def _untestable(reason: str, query: str) -> Finding:
    return Finding("not testable here", None, reason, query, "none")


_KINDS: dict[str, Callable[[Claim, Basis], Finding]] = {
    "run": _run,
    "trace": _trace,
    "texts": _texts,
    "other": _other,
}
