"""The claims that the conclusions of reports 000 to 004 rest on, and of the group's result of December 2025 (005).

Figures come from the real tokenizers, stored runs, the LPs' own tables, and arithmetic on the reports' figures. Every
verdict is computed; the reports' pass rates go by their own rule (*passed*): junk may pass. `make claims` checks all
again, `python -m engine claims ID` one. Tick a claim to see its reason and its query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from engine.errors import FileError, nearest, one_line, shown
from engine.evidence.checks import VERDICTS
from engine.evidence.claims import REPORTS, SPEEDS, Claim, figure_words, load_claims, with_speed
from engine.evidence.verdicts import FILE, Verdict, document, load
from engine.models.loading import sized
from engine.questions.question import Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

SIGNS = dict(zip(VERDICTS, "✓✗≠∼?", strict=True))
TITLE = "Which claims of the reports hold?"
OF = Of("run", least=0, most=0)


def subjects(*_: object) -> dict[str | None, str]:
    names = sorted({claim.subject for claim in load_claims()})
    return {None: "anything", **dict(zip(names, names, strict=True))}


OPTIONS = (
    Option("report", (), "Report", REPORTS, is_many=True),
    Option("verdict", (), "Verdict", VERDICTS, is_many=True),
    Option("find", "", "Contains"),
    Option("about", None, "About", subjects),
    Option("figure", False, "Only with a figure"),
    Option("claim", None, is_picked=True),
)  # fmt: skip
COLUMNS = {
    "claim_id": Column("claim", picks="claim", wrap_px=180),
    "verdict": Column(wrap_px=130),
    "unit": Column(wrap_px=100),
    "statement": Column(help="In our words", wrap_px=320),
    "reported": Column("report", help="The figure as the report has it"),
    "measured": Column("here", help="The figure computed here; none where two reports' figures differ"),
    "subject": Column("about"),
    "source": Column("by", help="What the verdict rests on"),
    "sql": Column("its query", page="compare", help="Opens it in the SQL console"),
    "text": Column("its text", page="tokenizer_lab", help="Opens it in the Tokenizer lab"),
    **{name: Column(is_hidden=True) for name in ("report", "least", "value", "most", "highlight", "query", "also")},
}
ORDER = """claim_id verdict reported measured unit statement subject source sql text section reason report also least
    value most highlight query""".split()
MOST_LINK = 6_000  # characters of a link; a longer one is not taken by every browser and proxy


def depends(store: Store, entries: Sequence[Entry], options: Options) -> float:
    return FILE.stat().st_mtime


def judged() -> list[tuple[Claim, Verdict]]:
    """All claims with the verdicts that were saved last."""
    by_id = {verdict.claim_id: verdict for verdict in load().verdicts}
    return [(claim, by_id[claim.id]) for claim in load_claims() if claim.id in by_id]


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    chosen = []
    for claim, verdict in judged():
        sql = urlencode({"sql": verdict.query.partition(" -- ")[0], "view": "SQL"})
        text = claim.check.get("text") if claim.check["by"] == "tokens" else None
        row = {
            **with_speed(document(claim, verdict)),
            "also": "; ".join(claim.also),
            "statement": one_line(claim.statement),
            "measured": figure_here(verdict),
            "sql": sql if verdict.source == "store" and len(sql) <= MOST_LINK else None,
            "text": f"text={quote(text, safe='<>,.[]')}" if text else None,
        }
        if is_chosen(claim, verdict, row, options):
            chosen.append({name: row[name] for name in ORDER})
    return {"main": rows_table(chosen, ORDER)}


def is_chosen(claim: Claim, verdict: Verdict, row: Mapping[str, Any], options: Options) -> bool:
    words = " ".join(str(cell) for cell in row.values()).casefold()
    return (
        claim.report in (options["report"] or REPORTS)
        and verdict.verdict in (options["verdict"] or VERDICTS)
        and all(word in words for word in options["find"].casefold().split())
        and options["about"] in (None, claim.subject)
        and bool(claim.reported or not options["figure"])
    )


def figure_here(verdict: Verdict) -> str:
    """Nothing where it is another report's; without its unit, which has a column, but a speed's."""
    if verdict.measured is None or verdict.source == "reports":
        return ""
    return figure_words(verdict.measured, verdict.unit if verdict.unit in SPEEDS else "")


def second_figure(claim: Claim, verdict: Verdict) -> str:
    """With where it comes from: ``here: 48.2 s``, or where two reports differ ``report 002: 3.8 %``."""
    if verdict.measured is None:
        return ""
    source, figure = "here", figure_words(verdict.measured, verdict.unit)
    if verdict.source == "reports":
        other = next(other for other in load_claims() if other.id == claim.check["other"])
        source, figure = f"report {other.report}", f"{other.reported} {verdict.unit}".strip()
    elif verdict.source == "arithmetic":
        source = "from the reports' figures"
    return f"{source}: {figure}"


def answer(tables: Tables, options: Options) -> str:
    """How many claims have which verdict, and when they were checked; of one claim all that is known of it."""
    if options["claim"] is None:
        last = load()
        counts = ", ".join(f"{SIGNS[name]} {last.counts[name]} {name}" for name in VERDICTS)
        commit = (last.git_commit or "no checkout")[:10]
        return f"{len(last.verdicts)} claims: {counts}. Checked on {last.when:%d %b %Y} at commit {commit}."
    by_id = {claim.id: (claim, verdict) for claim, verdict in judged()}
    if options["claim"] not in by_id:
        raise FileError(f"there is no claim {shown(options['claim'])}", nearest(options["claim"], list(by_id)))
    claim, verdict = by_id[options["claim"]]
    lead = f"{SIGNS[verdict.verdict]} {verdict.verdict}: “{claim.statement.strip()}”"
    where = f"{claim.id}: report {claim.report}, {', '.join((claim.section, *claim.also))}; about {claim.subject}"
    reported = f"report: {claim.reported} {claim.unit}".strip() if claim.reported else ""
    why = verdict.reason
    if verdict.source in ("store", "experiment"):  # on which models of what size it rests
        named = dict.fromkeys(re.findall(r"demo-(?:qwen|llama)(?:-[a-z]+)?", f"{verdict.reason} {verdict.query}"))
        why += f" Rests on {' and '.join(map(sized, named or ('demo-qwen', 'demo-llama')))}, on a CPU."
    figures = " · ".join(filter(None, [reported, second_figure(claim, verdict)]))
    return answer_text(filter(None, [lead, where, figures, why, f"Checked with: {verdict.query}"]))
