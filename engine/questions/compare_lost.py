"""An atlas of lost molecules: of each sample with a wrong shape, the first token after which no right place was left.

That is proved by bounds, at the verdict's own tolerance; a molecule that is *certain* had a right place right before
that token, another may have been lost before. *Before its block*: the atoms before had left none. How probable the
token was is known where the run kept steps. It says where a model went wrong, not why. Later blocks of a lost molecule
are not counted here; `lost RUN` has them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from engine.chem.verdict import check_words
from engine.comparing.measures import has_samples, run_names
from engine.figures.statistics import wilson
from engine.figures.words import counted, fixed, percent, span
from engine.inspection.lost_runs import MOST_UNSTORED, is_searched, lost_of_read_only, why_not_searched
from engine.inspection.lost_token import BIN_DIGITS
from engine.questions.question import Chart, Column, NeedsWork, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.schema import SAMPLES, STEPS
from engine.store.store import Store

TITLE = "Which token lost the molecule?"
OF = Of("run", least=1, most=41)
NEEDS_TEXTS = True
BY = {"check": "check", "axis": "axis", "digit": "digit", "site": "ring closure or centre", "chance": "probability"}
OPTIONS = (Option("lost_by", "check", "Lost by", BY), Option("lost_group", None, "Group", is_picked=True))
BEFORE, UNKNOWN = "before its block", "not known"
DECIMALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
OF_BINS = tuple(f"{ordinal} digit of a bin" for ordinal in DECIMALS[:6])
DIGITS = (BEFORE, "sign", "integer digits", *(f"{ordinal} decimal" for ordinal in DECIMALS), *OF_BINS, "closing token")
SITES = ("ring closure", "centre", "ring closure and centre", "elsewhere")
CHANCES = {0.5: "over 50 %", 0.1: "10 to 50 %", 0.01: "1 to 10 %", 0.0: "under 1 %"}
ORDERS = {"axis": (BEFORE, "x", "y", "z"), "digit": DIGITS, "site": SITES, "chance": (*CHANCES.values(), UNKNOWN)}
COLUMNS = {
    "name": Column("run"),
    "group": Column("lost by", picks="lost_group"),
    "samples": Column("samples", help="Lost so"),
    "certain": Column("certain", help="Of these, with a right place right before that token"),
    "of": Column("of samples"),
    "share": Column("share", "%"),
    "sample": Column("sample", page="drift"),
    "token": Column("token"),
    "p_raw": Column("p", "%", "Of the token before the LP"),
    "q": Column("q", "%", "That it was drawn with"),
    "why": Column("why", wrap_px=420),
}
CHARTS = (Chart("heat", "name", "group", size="share", text="samples", hover=("certain",)),)
TABLES = ("main", "lost")
FIRST = """
SELECT * FROM lost WHERE run_id = $run
QUALIFY row_number() OVER (PARTITION BY sample_id ORDER BY conformer, block) = 1 ORDER BY sample_id
"""
CHANCE = "SELECT sample_id, pos, p_raw, ln_q FROM steps WHERE run_id = $run AND p_raw IS NOT NULL"


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names = run_names(entries)
    by = options["lost_by"]
    picked = options["lost_group"]
    reasons = {entry.id: why_not_searched(store, entry) for entry in entries if has_samples(entry)}
    notes = [{"note": f"Left out: {reason.what}."} for reason in reasons.values() if reason]
    runs = list[dict[str, Any]]()
    rows = list[dict[str, Any]]()
    lost = list[dict[str, Any]]()
    for entry, marks in _first_marks(store, [entry for entry in entries if not reasons.get(entry.id, True)]):
        head, of = {"run": entry.id, "name": names[entry.id]}, entry.parts[SAMPLES.name].rows
        marks = [mark | {"group": _group(mark, by)} for mark in marks]
        rows += [head | cell for cell in _cells(marks, by, of)]
        runs.append(head | _summary(marks, of))
        lost += [head | _shown(entry, mark) for mark in marks if picked in (None, mark["group"])]
    order = ["run", "name", "group", "samples", "certain", "of", "share"]
    return {
        "main": rows_table(rows, order),
        "runs": rows_table(runs, ["name"]),
        "lost": rows_table(lost),
        "notes": rows_table(notes, ["note"]),
    }


def _cells(marks: Sequence[dict[str, Any]], by: str, of: int) -> list[dict[str, Any]]:
    """The groups of one run, in their order; of checks the commonest first."""
    groups = Counter(mark["group"] for mark in marks)
    certain = Counter(mark["group"] for mark in marks if mark["is_certain"])
    order = ORDERS.get(by, tuple(group for group, _ in groups.most_common()))
    return [
        {"group": group, "samples": groups[group], "certain": certain[group], "of": of, "share": groups[group] / of}
        for group in order
        if groups[group]
    ]


def _first_marks(store: Store, entries: Sequence[Entry]) -> list[tuple[Entry, list[dict[str, Any]]]]:
    """By run the first lost block of each sample, with its token's probabilities. What can be stored, and is not, needs
    work; a small run that is only read is searched now."""
    is_small = {entry.id: entry.parts[SAMPLES.name].rows <= MOST_UNSTORED for entry in entries}
    unsearched = [entry for entry in entries if not is_searched(entry)]
    waiting = [entry for entry in unsearched if entry.files is store.home or not is_small[entry.id]]
    if waiting:
        reason = f"{counted(len(waiting), 'run')} not searched for tokens that lost a molecule"
        raise NeedsWork(reason, *(["lost", entry.id] for entry in waiting))
    found = []
    for entry in entries:
        if entry in unsearched:
            of_sample = {row["sample_id"]: row for row in reversed(lost_of_read_only(store, entry).to_pylist())}
            marks = [of_sample[sample] for sample in sorted(of_sample)]
        else:
            marks = store.table(FIRST, {"run": entry.id}, of=[entry.id]).to_pylist()
        found.append((entry, _with_chances(store, entry, marks)))
    return found


def _with_chances(store: Store, entry: Entry, marks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    steps = store.table(CHANCE, {"run": entry.id}, of=[entry.id]).to_pylist() if STEPS.name in entry.parts else []
    known = {(step["sample_id"], step["pos"]): step for step in steps}
    rows = []
    for mark in marks:
        is_token = mark["tokens_by"] == "written" and not mark["is_before"]
        step = known.get((mark["sample_id"], mark["pos"]), {}) if is_token else {}
        ln_q = step.get("ln_q")
        rows.append({**mark, "p_raw": step.get("p_raw"), "q": None if ln_q is None else math.exp(ln_q)})
    return rows


def _group(mark: dict[str, Any], by: str) -> str:
    if by == "check":
        return check_words(mark["check"])
    if by == "chance":
        p_raw = mark["p_raw"]
        return UNKNOWN if p_raw is None else next(words for least, words in CHANCES.items() if p_raw >= least)
    if by == "site":
        return SITES[{(True, False): 0, (False, True): 1, (True, True): 2}.get(_site(mark), 3)]
    if mark["is_before"]:
        return BEFORE
    if by == "axis":
        return str(mark["axis"])
    if mark["digit"] is None:
        return DIGITS[-1]
    digit = int(mark["digit"])
    return OF_BINS[digit - BIN_DIGITS - 1] if digit > BIN_DIGITS else DIGITS[digit + 2]


def _site(mark: dict[str, Any]) -> tuple[bool, bool]:
    return mark["is_ring_closure"], mark["is_centre"]


def _summary(marks: list[dict[str, Any]], of: int) -> dict[str, Any]:
    commonest = Counter(check_words(mark["check"]) for mark in marks).most_common(1)
    chances = [mark["p_raw"] for mark in marks if mark["p_raw"] is not None]
    return {
        "lost": len(marks),
        "of": of,
        "check": commonest[0][0] if commonest else "",
        "by_check": commonest[0][1] if commonest else 0,
        "at_site": sum(any(_site(mark)) for mark in marks),
        "certain": sum(mark["is_certain"] for mark in marks),
        "known": len(chances),
        "p_raw": median(chances) if chances else None,
    }


def _shown(entry: Entry, mark: dict[str, Any]) -> dict[str, Any]:
    where = BEFORE if mark["is_before"] else f"{mark['axis']}, {_group(mark, 'digit')}: {mark['piece']}"
    address = f"run={entry.id}&atom={mark['atom']}&sample={mark['sample_id']}"
    atom = f"{mark['element']}, atom {mark['atom']}"
    return {"sample": address, "atom": atom, "token": where, **{name: mark[name] for name in ("p_raw", "q", "why")}}


def answer(tables: Tables, options: Options) -> str:
    lines = []
    for run in tables["runs"].to_pylist():
        share = f"{percent(run['lost'] / run['of'])}, {span(*wilson(run['lost'], run['of']), percent)}"
        line = f"{run['name']}: {run['lost']:,} of {run['of']:,} samples lost their shape ({share})"
        if run["lost"]:
            line += f", most by {run['check']} ({run['by_check']:,}); {run['at_site']:,} at a ring closure or centre"
            line += f"; {run['certain']:,} with a right place up to that token"
        if run["known"]:
            line += f". The model gave the token {fixed(100 * run['p_raw'], 1)} % (median of {run['known']:,})"
        lines.append(f"{line}.")
    notes = tables["notes"]["note"].to_pylist()
    without_texts = "None of these runs has texts to search: reports state figures alone."
    return answer_text(lines or ["None of these runs can be searched." if notes else without_texts], notes)
