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

from engine.chem.enriched import OPEN_TAG
from engine.chem.rmsd import least_rmsd
from engine.errors import DriftscopeError, RunError
from engine.figures.words import angstrom, counted, listed
from engine.inspection.sample import Inspected, inspect_sample
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, branch_place
from engine.store.store import Store

TITLE = "How much does this token decide?"
OF = Of("run", least=1, most=8)
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
    **dict.fromkeys(("place", "is_parent", "is_same", "token_id"), Column(is_hidden=True)),
}
CHARTS = (Chart("bars", "rmsd_ang", "token", "branches", colour="lp"),)
NO_PARENT = "the sample that it goes on from is not in this store"


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[dict[str, Any]] = []
    for entry in entries:
        branch = branch_place(entry)
        if branch is None:
            fix = "Make some: `python -m engine branch RUN/SAMPLE --at N --all`"
            raise RunError(f"{entry.id} has no branches", fix)
        run_id, sample, at = branch
        place, parent = f"{run_id}/{sample} token {at:,}", None
        with suppress(DriftscopeError):  # the parent was removed
            parent = inspect_sample(store, run_id, sample)
        if parent is not None and place not in [row["place"] for row in rows]:
            rows.append({**_row(parent, parent, at), "place": place, "is_parent": True})
        for of in store.rows("SELECT sample_id FROM samples WHERE run_id = $run ORDER BY ALL", {"run": entry.id}):
            seen = inspect_sample(store, entry.id, of["sample_id"])
            rows.append({**_row(seen, parent, at), "place": place, "is_parent": False})
    branches = [row for row in rows if not row["is_parent"]]
    return {"main": rows_table(rows, [*COLUMNS]), "branches": rows_table(branches, [*COLUMNS])}


def depends(store: Store, entries: Sequence[Entry], options: Options) -> object:
    """The parents: they may be removed, judged, or counted again."""
    parents = {place[0] for place in map(branch_place, entries) if place is not None}
    return tuple((entry.id, entry.key) for entry in store.listing().entries if entry.id in parents)


def _row(seen: Inspected, parent: Inspected | None, at: int) -> dict[str, Any]:
    sample, tokenizer, step = seen.sample, seen.tokenizer, seen.steps.get(at, {})
    ids = sample["token_ids"] or []
    id_ = ids[at] if at < len(ids) else None
    # Of an answer with several conformers those that the place is in are compared.
    number = 1 if tokenizer is None else max(1, tokenizer.decode(ids[:at]).count(OPEN_TAG))
    return {
        "sample": f"{seen.run.run_id}/{sample['sample_id']}",
        "lp": seen.run.lp_words,
        "token": "" if tokenizer is None or id_ is None else tokenizer.piece(id_),
        "token_id": id_,
        "is_same": parent is not None and ids == parent.sample["token_ids"],
        **{name: step.get(name) for name in ("p_raw", "p_lp")},
        **{name: sample[name] for name in ("clean", "usable")},
        "rmsd_ang": None if parent is None else _rmsd_ang(seen.of_conformer(number), parent.of_conformer(number)),
        "failed": listed([failed["check"] for failed in sample["failed"] or ()]),
    }


def _rmsd_ang(seen: Inspected, parent: Inspected) -> float | None:
    if seen.conformer is None or parent.conformer is None or seen.why_no_conformer or parent.why_no_conformer:
        return None
    with suppress(DriftscopeError):
        return round(least_rmsd(seen.conformer, parent.conformer), 6)  # of the same places it is 1e-16
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
        lines.append(f"{words}; {_against_parent(branches) if place in parents else NO_PARENT}.")
    return answer_text(lines)


def _against_parent(branches: Sequence[dict[str, Any]]) -> str:
    same = sum(row["is_same"] for row in branches)
    words = f"{same} of {len(branches)} has the sample's own tokens again; " if same else ""
    return words + _rmsd_words([row["rmsd_ang"] for row in branches if row["rmsd_ang"] is not None])


def _rmsd_words(known: Sequence[float]) -> str:
    if not known:
        return "no RMSD"
    if len(known) == 1:
        return f"RMSD to it {angstrom(known[0])}"
    return f"RMSD to it {angstrom(min(known))} to {angstrom(max(known))}, median {angstrom(median(known))}"
