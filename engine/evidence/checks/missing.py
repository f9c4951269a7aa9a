"""Checks of claims that only an input from outside can decide: they look whether it is here, and say what is not."""

from __future__ import annotations

from collections.abc import Callable

from engine.evidence.checks.finding import Basis, Finding, beside_reported, held_against, said
from engine.evidence.claims import Claim
from engine.evidence.formula import Range

TRACED_SAMPLES = 64
"""Of each of the runs that the reports profiled."""
_ALIGNED = "name ILIKE '%CatArrayBatchedCopy_aligned%'"
TRACE_FIGURES = {
    "span_s": "any_value(span_us) / 1e6",
    "launch_calls": "sum(calls) FILTER (family = 'launch')",
    "launches_a_token": "sum(calls) FILTER (family = 'launch') / any_value(traces.tokens)",
    "launch_s": "sum(total_us) FILTER (family = 'launch') / 1e6",
    "attention_calls": "sum(calls) FILTER (side = 'device' AND family = 'attention')",
    "attention_s": "sum(total_us) FILTER (side = 'device' AND family = 'attention') / 1e6",
    "copy_calls": "sum(calls) FILTER (side = 'device' AND family = 'copy')",
    "copy_s": "sum(total_us) FILTER (side = 'device' AND family = 'copy') / 1e6",
    "aligned_concat_calls": f"sum(calls) FILTER (side = 'device' AND {_ALIGNED})",
    "generic_concat_calls": f"sum(calls) FILTER (side = 'device' AND family = 'concat' AND NOT {_ALIGNED})",
    "gemm_s": "sum(total_us) FILTER (side = 'device' AND family = 'gemm') / 1e6",
}


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
        return _compared(claim, rows[0]["run_id"], rows[0]["measured"], query)
    how = "without an LP" if given["lp"] == "none" else "with its LP"
    which = f"{given['family']} {how} on {given['samples']:,} samples on an H100"
    return _untestable(f"Needs the run of {which}; the store holds none that was imported or measured.", query)


def _trace(claim: Claim, basis: Basis) -> Finding:
    """A profile of the GPU's work. Where the claim names a ``figure`` of one, a trace of the store can give it."""
    needed = f"Needs the GPU trace of {claim.arguments['of']}"
    if "figure" not in claim.arguments:
        return _untestable(f"{needed}; what is read from a trace does not give this figure.", "needs a trace")
    family = claim.arguments["family"]
    lp = "without" if claim.arguments.get("lp") == "none" else "with"
    query = _trace_query(claim.arguments["figure"], family, lp)
    rows = basis.rows(query)
    if not rows or rows[0]["measured"] is None:
        like = f"of {family} {lp} an LP, {TRACED_SAMPLES} samples on an H100, that was imported or measured"
        return _untestable(f"{needed}; the store holds none {like}.", query)
    return _compared(claim, rows[0]["trace_id"], rows[0]["measured"], query)


def _trace_query(figure: str, family: str, lp: str) -> str:
    """Of the first trace that can be the reports' own: by its run, or by its label where it has none."""
    where = [
        "traces.origin <> 'reported'",
        "traces.is_complete IS NOT FALSE",
        f"traces.samples = {TRACED_SAMPLES}",
        "concat_ws(' ', traces.device, traces.label) LIKE '%H100%'",
        "runs.lp = 'none'" if lp == "without" else "coalesce(runs.lp, '') <> 'none'",
        f"coalesce(runs.model_family, concat_ws(' ', traces.label, traces.source)) ILIKE '%{family}%'",
    ]
    return (
        f"SELECT trace_id, {TRACE_FIGURES[figure]} AS measured FROM traces JOIN trace_ops USING (trace_id) "
        f"LEFT JOIN runs USING (run_id) WHERE {' AND '.join(where)} "
        "GROUP BY trace_id ORDER BY min(traces.created_at), trace_id LIMIT 1"
    )


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


def _compared(claim: Claim, id_: str, figure: float, query: str) -> Finding:
    measured = Range.exact(float(figure))
    reason = f"{id_} has {said(measured.value)}{beside_reported(claim)}."
    return Finding(held_against(claim, measured), measured.value, reason, query, "store")


def _untestable(reason: str, query: str) -> Finding:
    return Finding("not testable here", None, reason, query, "none")


_KINDS: dict[str, Callable[[Claim, Basis], Finding]] = {
    "run": _run,
    "trace": _trace,
    "texts": _texts,
    "other": _other,
}
