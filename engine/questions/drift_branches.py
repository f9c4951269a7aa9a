"""How much a token decides: answers that go on from one place of a sample, each with another token there.

They keep the sample's ids before the place and draw by its own random numbers, so what differs comes of the token. The
sample itself is the first row. RMSD is over heavy atoms, superposed, to the sample's conformer; the probabilities are
those of the token at the place, before and after the LP of the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from rdkit import Chem

from engine.chem.enriched import OPEN_TAG
from engine.chem.rmsd import least_rmsd
from engine.errors import DriftscopeError, RunError
from engine.figures.words import angstrom, counted, listed
from engine.inspection.conformers import conformers_of
from engine.inspection.runs import run_facts, run_tokenizer
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, branch_place
from engine.store.store import Store

TITLE = "How much does this token decide?"
OF = Of("run", least=1, most=8)
OPTIONS = ()
COLUMNS = {
    "sample": Column("sample", is_pinned=True, help="The first row of a place is the sample that is gone on from"),
    "lp": Column("LP"),
    "token": Column("token", help="At the place"),
    "p_raw": Column("before the LP", "%", "Probability of the token; empty where the run kept no steps"),
    "p_lp": Column("after the LP", "%", "Among the tokens that the LP allows; one that strikes tokens leaves fewer"),
    "clean": Column("clean"),
    "usable": Column("usable", help="Clean, stereo right, geometry right"),
    "rmsd_ang": Column("RMSD to the first", "Å", "Heavy atoms, superposed; empty where a text is not readable"),
    "failed": Column("checks failed", wrap_px=320),
    **dict.fromkeys(("place", "is_parent", "token_id"), Column(is_hidden=True)),
}
CHARTS = (Chart("bars", "rmsd_ang", "token", "branches", colour="lp"),)
TABLES = ("main",)
_ROWS = """
SELECT sample_id, token_ids[$at + 1] AS token_id, p_raw, p_lp, clean, usable, failed
FROM samples LEFT JOIN (FROM steps SELECT run_id, sample_id, p_raw, p_lp WHERE pos = $at) USING (run_id, sample_id)
WHERE run_id = $run AND ($sample IS NULL OR sample_id = $sample) ORDER BY sample_id
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[dict[str, Any]] = []
    for entry in entries:
        branch = branch_place(entry)
        if branch is None:
            fix = "Make some: `python -m engine branch RUN/SAMPLE --at N --all`"
            raise RunError(f"{entry.id} has no branches", fix)
        run_id, sample, at = branch
        place, number = f"{run_id}/{sample} token {at:,}", _conformer_at(store, entry, at)
        parent = None
        with suppress(DriftscopeError):  # the parent was removed
            for row, parent in _answers(store, store.entry(run_id), at, number, sample):
                if place not in [other["place"] for other in rows]:
                    rows.append({**row, "place": place, "is_parent": True, "rmsd_ang": 0.0 if parent else None})
        for row, mol in _answers(store, entry, at, number):
            rows.append({**row, "place": place, "is_parent": False, "rmsd_ang": _rmsd_ang(mol, parent)})
    branches = [row for row in rows if not row["is_parent"]]
    return {"main": rows_table(rows, [*COLUMNS]), "branches": rows_table(branches, [*COLUMNS])}


def depends(store: Store, entries: Sequence[Entry], options: Options) -> object:
    """The parents: they may be removed, judged, or counted again."""
    parents = {place[0] for place in map(branch_place, entries) if place is not None}
    return tuple((entry.id, entry.key) for entry in store.listing().entries if entry.id in parents)


def _conformer_at(store: Store, entry: Entry, at: int) -> int:
    """The number of the answer's conformer that the place is in."""
    tokenizer, _ = run_tokenizer(run_facts(store, entry.id))
    sql = "SELECT token_ids[:$at] AS ids FROM samples WHERE run_id = $run LIMIT 1"
    rows = store.rows(sql, {"run": entry.id, "at": at})
    if tokenizer is None or not rows:
        return 1
    return max(1, tokenizer.decode(rows[0]["ids"]).count(OPEN_TAG))


def _answers(
    store: Store, entry: Entry, at: int, number: int, sample: int | None = None
) -> Iterator[tuple[dict[str, Any], Chem.Mol | None]]:
    """Of each sample, or of one, what is said of it, and its conformer of this number as the strict reader takes it."""
    facts = run_facts(store, entry.id)
    tokenizer, _ = run_tokenizer(facts)
    named, about = conformers_of(store, entry.id, None if sample is None else [sample])
    each = zip(named, about, strict=True)
    mols = {of["sample_id"]: mol for (_, mol), of in each if of.get("conformer", number) == number}
    for row in store.table(_ROWS, {"run": entry.id, "at": at, "sample": sample}, of=[entry.id]).to_pylist():
        of_sample, id_ = row.pop("sample_id"), row["token_id"]
        token = "" if tokenizer is None or id_ is None else tokenizer.piece(id_)
        failed = listed([failed["check"] for failed in row["failed"] or ()])
        of_row = {"sample": f"{entry.id}/{of_sample}", "lp": facts.lp_words, "token": token, "failed": failed}
        yield {**row, **of_row}, mols.get(of_sample)


def _rmsd_ang(mol: Chem.Mol | None, parent: Chem.Mol | None) -> float | None:
    if mol is not None and parent is not None:
        with suppress(DriftscopeError):
            return round(least_rmsd(mol, parent), 6)  # of the same places it is 1e-16
    return None


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    parents = {row["place"]: row for row in rows if row["is_parent"]}
    lines = []
    for place, lp in dict.fromkeys((row["place"], row["lp"]) for row in rows if not row["is_parent"]):
        branches = [row for row in rows if not row["is_parent"] and (row["place"], row["lp"]) == (place, lp)]
        usable = sum(row["usable"] is True for row in branches)
        words = (
            f"{place}, {counted(len(branches), 'branch', 'branches')} under {lp}: {usable} of {len(branches)} usable"
        )
        if place in parents and parents[place]["usable"] is not None:
            words += f", the sample itself is{'' if parents[place]['usable'] else ' not'}"
        lines.append(f"{words}; {_rmsd_words([row['rmsd_ang'] for row in branches if row['rmsd_ang'] is not None])}.")
    return answer_text(lines)


def _rmsd_words(known: Sequence[float]) -> str:
    if not known:
        return "no RMSD"
    if len(known) == 1:
        return f"RMSD to it {angstrom(known[0])}"
    return f"RMSD to it {angstrom(min(known))} to {angstrom(max(known))}, median {angstrom(median(known))}"
