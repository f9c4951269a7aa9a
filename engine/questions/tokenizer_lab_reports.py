"""Figures on tokens of reports 000, 001 and 002, each next to what the tokenizer gives now.

A position LP blocks every token with `<` or `>` at a FREE position; a vocabulary is a tokenizer's own, and padding
belongs to a model. All claims of the reports are on the Evidence page.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.evidence.checks import tokens
from engine.evidence.claims import load_claims
from engine.figures.words import rounded, signed
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.questions.question import Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store
from engine.text.template import drift_summary
from engine.text.tokenizers import BUILT_IN, load_tokenizer

TITLE = "Which of the reports' figures on tokens reproduce?"
OF = Of("text", least=0, most=0)
OPTIONS = (Option("contradicted", False, "Contradicted only"),)
COLUMNS = {
    "text": Column(help="Empty: the whole vocabulary"),
    "reported": Column("reported"),
    "measured": Column("here"),
    "note": Column("why", wrap_px=300),
    "claim": Column(page="evidence"),
}
UNTRIED = "[C]<-1.2345,0.6789,2.1234>"


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows = []
    for claim in load_claims():
        if claim.check["by"] == "tokens":
            finding, text = tokens(claim, lambda _: []), claim.check.get("text", "")
            pieces = [token.piece for token in load_tokenizer(claim.check["tokenizer"]).tokens(text)]
            rows.append(
                {
                    "report": claim.report,
                    "section": claim.section,
                    "what": claim.subject,
                    "text": text,
                    "reported": claim.reported,
                    "measured": round(finding.measured or 0),
                    "verdict": finding.verdict,
                    "note": claim.note if finding.verdict == "contradicted" else "",
                    "split into": " ".join(pieces),
                    "claim": f"claim={claim.id}",
                }
            )
    wrong = [row for row in rows if row["verdict"] == "contradicted"]
    return {"main": rows_table(wrong if options["contradicted"] else rows), "all": rows_table(rows)}


def answer(tables: Tables, options: Options) -> str:
    verdicts = tables["all"]["verdict"].to_pylist()
    drifts = {name: drift_summary([UNTRIED], load_tokenizer(name), DEFAULT_PLACEHOLDER).mean_drift for name in BUILT_IN}
    has_drift = " and ".join(f"{signed(int(rounded(drift)))} under {name}" for name, drift in drifts.items())
    return answer_text(
        [
            f"Of {len(verdicts)} figures on tokens {verdicts.count('reproduced')} reproduce with the real tokenizers "
            f"and {verdicts.count('contradicted')} do not."
        ],
        [f"No drift in the reports is negative. A block that they did not try, {UNTRIED[3:]}, has {has_drift}."],
    )
