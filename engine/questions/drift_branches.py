"""How much a token decides: answers that go on from one place of a sample, each with another token there.

They keep the sample's ids before the place and draw by its own random numbers, so what differs comes of the token. The
sample itself is the first row. RMSD is over heavy atoms, superposed, to the sample's conformer; the probabilities are
those of the token at the place, before and after the LP of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
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
            raise RunError(
                f"{entry.id} has no branches", "Make some: `python -m engine branch RUN/SAMPLE --at N --all`"
            )
        run_id, sample, at = branch
        place, number = f"{run_id}/{sample} token {at:,}", _conformer_at(store, entry, at)
        parent, mols = None, dict[int, Chem.Mol]()
        with suppress(DriftscopeError):  # the parent was removed
            parent = store.entry(run_id)
            mols = _conformers(store, parent, [sample], number)
            if place not in [row["place"] for row in rows]:
                rows += _rows(store, parent, place, at, sample, mols.get(sample), number)
        rows += _rows(store, entry, place, at, None, mols.get(sample), number)
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


def _conformers(store: Store, entry: Entry, samples: Sequence[int] | None, number: int) -> dict[int, Chem.Mol]:
    """By sample, those that the strict reader takes; of an answer with several that of this number."""
    named, about = conformers_of(store, entry.id, samples)
    each = zip(named, about, strict=True)
    return {of["sample_id"]: mol for (_, mol), of in each if of.get("conformer", number) == number}


def _rows(
    store: Store, entry: Entry, place: str, at: int, sample: int | None, parent: Chem.Mol | None, number: int
) -> list[dict[str, Any]]:
    """Of a branch's samples, or of the one sample that is their parent."""
    facts = run_facts(store, entry.id)
    tokenizer, _ = run_tokenizer(facts)
    mols = _conformers(store, entry, None if sample is None else [sample], number)
    rows = []
    for row in store.table(_ROWS, {"run": entry.id, "at": at, "sample": sample}, of=[entry.id]).to_pylist():
        of_sample = row.pop("sample_id")
        rmsd_ang = 0.0 if sample is not None and parent is not None else _rmsd_ang(mols.get(of_sample), parent)
        of_row = {
            "sample": f"{entry.id}/{of_sample}",
            "place": place,
            "is_parent": sample is not None,
            "lp": facts.lp_words,
            "token": "" if tokenizer is None or row["token_id"] is None else tokenizer.piece(row["token_id"]),
            "rmsd_ang": rmsd_ang,
            "failed": listed([failed["check"] for failed in row["failed"] or ()]),
        }
        rows.append({**row, **of_row})
    return rows


def _rmsd_ang(mol: Chem.Mol | None, parent: Chem.Mol | None) -> float | None:
    if mol is not None and parent is not None:
        with suppress(DriftscopeError):
            return round(least_rmsd(mol, parent), 6)  # of the same places it is 1e-16
    return None


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    places = dict.fromkeys((row["place"], row["lp"]) for row in rows if not row["is_parent"])
    return answer_text(_line(rows, place, lp) for place, lp in places)


def _line(rows: Sequence[dict[str, Any]], place: str, lp: str) -> str:
    parent = next((row for row in rows if row["is_parent"] and row["place"] == place), None)
    branches = [row for row in rows if not row["is_parent"] and row["place"] == place and row["lp"] == lp]
    usable = sum(row["usable"] is True for row in branches)
    words = f"{place}, {counted(len(branches), 'branch', 'branches')} under {lp}: {usable} of {len(branches)} usable"
    if parent is not None and parent["usable"] is not None:
        words += f", the sample itself is{'' if parent['usable'] else ' not'}"
    return f"{words}; {_rmsd_words([row['rmsd_ang'] for row in branches if row['rmsd_ang'] is not None])}."


def _rmsd_words(known: Sequence[float]) -> str:
    if not known:
        return "no RMSD"
    if len(known) == 1:
        return f"RMSD to it {angstrom(known[0])}"
    return f"RMSD to it {angstrom(min(known))} to {angstrom(max(known))}, median {angstrom(median(known))}"
