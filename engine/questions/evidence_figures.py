"""The claims that the reports' conclusions rest on, each with the report's figure and the one computed here.

Each row has a scale of its own, from 0 to the largest figure. Where a statement has no figure, it is what
the statement comes to: *cannot be faster* is 1× as fast. Lines are 95 % intervals over molecules. Sorted by how many
sections of the reports and other claims repeat or use the claim. Click on a mark to see the claim's reason and query.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from engine.evidence.claims import SPEEDS, Claim, load_claims, pretty
from engine.evidence.verdicts import FILE, Verdict, load
from engine.questions.evidence_claims import SIGNS, judged
from engine.questions.question import Chart, Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Which claims fell, and by how much?"
OF = Of("run", least=0, most=0)
COLUMNS = {
    "place": Column("of each row's scale", "%"),
    "value": Column("figure", help="In the unit of its row"),
    "low": Column("from", help="95 % interval over molecules, where the figure is of molecules"),
    "high": Column("to"),
    "rests": Column("rests on it", help="Sections of the reports and other claims that repeat or use it"),
    **dict.fromkeys(("label", "words", "low_place", "high_place", "link"), Column(is_hidden=True)),
}
CHARTS = (
    Chart("points", "place", "label", colour="whose", low="low_place", high="high_place", text="words",
          hover=("statement", "whose", "words", "verdict"), picks="page:evidence:link"),
)  # fmt: skip
TABLES = ()
NEAR = 0.2
"""Of a row: marks so near to each other have one text."""
ROOM = 1.1
"""Of a row's scale, so that the text at its largest figure has room."""


def depends(store: Store, entries: Sequence[Entry], options: Options) -> float:
    return FILE.stat().st_mtime


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    uses = uses_of(load_claims())
    pairs = [(claim, verdict) for claim, verdict in judged() if claim.highlight]
    pairs.sort(key=lambda pair: -uses[pair[0].id])
    rows = [{**row, "rests": uses[claim.id]} for claim, verdict in pairs for row in marks_of(claim, verdict)]
    counts = load().counts
    names = ("claim_id", "statement", "verdict", "whose", "value", "low", "high", "unit", "rests")
    return {
        "main": rows_table(rows, names),
        "verdicts": rows_table([{"verdict": name, "claims": counts[name]} for name in SIGNS]),
    }


def uses_of(claims: Sequence[Claim]) -> Counter[str]:
    """By claim: how many sections repeat it, and how many other claims are checked with its figure."""
    uses: Counter[str] = Counter()
    for claim in claims:
        uses[claim.id] += len(claim.also)
        used = set(re.findall(r"figure\('([^'/]+)'\)", claim.check.get("sql", "")))
        uses.update({claim.check["other"]} if "other" in claim.check else used)
    return uses


def marks_of(claim: Claim, verdict: Verdict) -> Iterator[dict[str, Any]]:
    """The report's and ours, where both are figures; one whose figures are far apart has a text at each."""
    theirs = claim.implied if claim.value is None else claim.value
    if theirs is None or verdict.measured is None:
        return
    whose = "another report" if verdict.source == "reports" else "here"
    figures = [("report", theirs, None, None), (whose, verdict.measured, verdict.low, verdict.high)]
    most = ROOM * max(figure for _, *of in figures for figure in of if figure is not None) or 1.0
    figure, our_figure = claim.reported or pretty(theirs), pretty(verdict.measured)
    words = [short(figure, verdict.unit), short(our_figure, verdict.unit)]
    if abs(theirs - verdict.measured) < NEAR * most:
        words = [words[1] if figure == our_figure else f"{figure} | {words[1]}", ""]
    for (name, value, low, high), text in zip(figures, words, strict=True):
        yield {
            "claim_id": claim.id,
            "statement": claim.statement,
            "verdict": verdict.verdict,
            "whose": name,
            "value": value,
            "low": low,
            "high": high,
            "unit": verdict.unit,
            "label": f"{SIGNS[verdict.verdict]} {claim.statement}",
            "words": text,
            "place": value / most,
            "low_place": None if low is None else low / most,
            "high_place": None if high is None else high / most,
            "link": urlencode({"view": "All claims", "claim": claim.id}),
        }


def short(figure: str, unit: str) -> str:
    """``57.5 %`` of ``% of damaged blocks were cut``, and a ratio of speeds as ``4.40×``."""
    if unit in (*SPEEDS, "x"):
        return f"{figure}×"
    return f"{figure} {unit.partition(' of ')[0]}"


def answer(tables: Tables, options: Options) -> str:
    counts = {row["verdict"]: row["claims"] for row in tables["verdicts"].to_pylist()}
    fell = counts["contradicted"] + counts["internally inconsistent"]
    last = load()
    return (
        f"{fell} of {len(last.verdicts)} claims fell: {counts['contradicted']} are contradicted, and "
        f"{counts['internally inconsistent']} by another of the reports. {counts['reproduced']} hold; "
        f"{counts['not shown on these models'] + counts['not testable here']} cannot be decided with these models. "
        f"Checked on {last.when:%d %b %Y}."
    )
