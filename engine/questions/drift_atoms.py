"""One sample atom by atom: what was written over each atom's template, what of it is damage, and its cost in Å.

Rows are of atoms, and of text between them where something happened there. Positions are those that the template has
for an atom's numbers; a text that no LP of positions wrote never met one. What a cut cost is an estimate, by the
model's own greedy continuation where `explain` has stored it; probabilities are there where the run kept its steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.figures.words import capitalised
from engine.inspection.atoms import rows_of_sample, tokens_of_sample, worst_first
from engine.inspection.faults import check_line, sample_words
from engine.inspection.sample import BlockEstimate, Inspected, inspect_sample
from engine.questions.question import Column, Of, Option, Options, SampleOf, Tables, answer_text, rows_table
from engine.store.store import Store

TITLE = "What is wrong at which atom?"
OF = Of("sample")
WORST, AS_WRITTEN = "Worst first", "Order of the text"
OPTIONS = (
    Option("rows", WORST, "Order", [WORST, AS_WRITTEN]),
    Option("conformer", 0, "Conformer", bounds=(0, 1_000), help="Of several in the answer; 0: the first faulty one"),
)
COLUMNS = {
    "name": Column("atom", is_pinned=True),
    "damage": Column("damage"),
    "needed": Column("tokens", help="That its numbers take"),
    "given": Column("positions", help="That the template has for them"),
    "off_ang": Column("off by", "Å", "How far the damage puts the atom off"),
    "is_estimate": Column("estimated", help="By the greedy continuation of a model"),
    "text": Column("written"),
    "words": Column("why"),
    **dict.fromkeys(("atom", "columns"), Column(is_hidden=True)),
}
TABLES = ()


def tables(store: Store, samples: Sequence[SampleOf], options: Options) -> Tables:
    (of,) = samples
    seen = inspect_sample(store, of.entry.id, of.sample_id)
    if len(seen.shapes) > 1:
        seen = seen.of_conformer(options["conformer"] or seen.first_faulty)
    return atom_tables(seen, options["rows"], seen.steps, seen.estimates)


def atom_tables(
    seen: Inspected,
    order: str,
    steps: Mapping[int, Mapping[str, Any]],
    estimates: Mapping[int, BlockEstimate],
    steps_by: str = "the run",
    estimates_by: str = "the model",
) -> Tables:
    """``steps`` and ``estimates`` are the sample's own, or those by another model."""
    rows = rows_of_sample(seen, steps, estimates)
    rows = worst_first(rows) if order == WORST else rows
    facts = {
        "run": seen.run.name,
        "sample": seen.sample["sample_id"],
        "smiles": seen.sample["smiles"],
        "verdict": sample_words(seen.sample, seen.blocks),
    }
    about = [*caption(seen, steps_by if steps else "", estimates_by if estimates else "")]
    return {
        "main": rows_table(list(map(asdict, rows)), [*COLUMNS]),
        "tokens": rows_table(list(map(asdict, tokens_of_sample(seen, steps)))),
        "facts": rows_table([facts]),
        "checks": rows_table([{"check": check_line(failed)} for failed in seen.sample["failed"] or ()], ["check"]),
        "about": rows_table([{"about": words} for words in about], ["about"]),
        "missing": rows_table([{"missing": words} for words in seen.missing], ["missing"]),
    }


def caption(seen: Inspected, steps_by: str, estimates_by: str) -> Iterator[str]:
    """How the rows were made; of no steps or estimates the model is empty."""
    if seen.alignment is None:
        yield "its tokens are not known"
    else:
        is_structure = seen.alignment.mode == "structure"
        by = "by structure: atoms to atoms, blocks to blocks" if is_structure else "by position, as the LP counts"
        yield f"the template's tokens above those written, aligned {by}"
    yield f"probabilities by {steps_by}" if steps_by else "no probabilities stored"
    if estimates_by:
        yield f"≈ by the greedy continuation of {estimates_by}"
    if seen.run.is_hypothetical and not seen.is_of_codes:
        yield "no template wrote this text, so its drift is hypothetical"


def answer(tables: Tables, options: Options) -> str:
    (facts,) = tables["facts"].to_pylist()
    lines = [f"{facts['run']}, sample {facts['sample']}, {facts['smiles']}: {facts['verdict']}"]
    worst = next((row["words"] for row in tables["main"].to_pylist() if row["words"]), "")
    lines += [f"First in the rows: {worst}"] if worst else []
    lines += [f"{capitalised(check)}." for check in tables["checks"]["check"].to_pylist()]
    about = "; ".join(tables["about"]["about"].to_pylist())
    return answer_text(lines, [f"{about}.", *tables["missing"]["missing"].to_pylist()])
