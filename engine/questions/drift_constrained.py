"""Whether the LP acted on every token: yes, no, not checked, or in its language.

*yes* has a proof: our own loops count the steps at which the LP was asked, a server is probed (its prompt names one
molecule, the LP another, which has to be written). Else stored tokens are followed through the LP here: then they are
in its language or not, and whether the LP was asked at each step is not known. Places are certain, causes the likeliest
ones. A text without token ids is followed as its tokenizer splits it, but not under an LP by position.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.inspection.constrained import follow_stored, stored_verdict
from engine.inspection.runs import facts_of
from engine.questions.question import Column, Of, Option, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Did the LP act on every token?"
OF = Of("run")
NEEDS_TEXTS = True
OPTIONS = (Option("constrained_of", 1_000, "Samples", bounds=(1, 1_000_000), help="So many are followed"),)
COLUMNS = {
    "sample": Column("sample", help="The first 1,000 of which there is something to tell"),
    "token": Column("token", help="Counted from 0 in the answer; none: the answer as a whole"),
    "cause": Column("likeliest cause", wrap_px=560),
}


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    followed = follow_stored(facts_of(entries[0]), entries[0], options["constrained_of"])
    verdict = stored_verdict(entries[0], followed)
    rows = [
        {"sample": finding.sample_id, "token": finding.token, "cause": finding.cause} for finding in followed.findings
    ]
    about = {"constrained": verdict.constrained, "why": verdict.constrained_why}
    return {"main": rows_table(rows, ["sample", "token", "cause"]), "about": rows_table([about])}


def answer(tables: Tables, options: Options) -> str:
    (about,) = tables["about"].to_pylist()
    return f"Constrained: {about['constrained']}. {about['why'][:1].upper()}{about['why'][1:]}."
