"""Blocks by drift: the template's FREE positions minus the tokens that a block's numbers need.

Above 0 positions are left over, which junk or shorter tokens fill: it is not the share of blocks with junk. Below 0
the number has too few. Drift is known where a block has three complete numbers; how many tokens a cut block misses,
only the model could tell, so such blocks have a bar of their own. Drift of text that no template wrote is hypothetical
and did nothing. By axis coordinates of known drift are counted. A click on a bar filters the molecules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.figures.words import counted, percent, signed
from engine.inspection.axes import AXES, axis_drifts
from engine.inspection.molecules import GROUPS, By
from engine.inspection.runs import RunFacts, facts_of
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.records import BinFormat, CodeFormat
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "How far do blocks drift?"
OF = Of("run", least=1, most=41)
NEEDS_TEXTS = True
BYS: dict[By, str] = {"lp": "LP", "tokenizer": "Tokenizer", "element": "Element", "axis": "Axis", "run": "Run"}
OPTIONS = (Option("by", "lp", "Drift by", BYS), Option("bin", label="bar", is_picked=True))
COLUMNS = {
    "title": Column("group", is_pinned=True),
    "drift": Column("drift", help="In tokens; cut: by an unknown number of them"),
    "sign": Column("kind"),
    "blocks": Column("blocks"),
    "share": Column("share", "%", "Of the group's blocks"),
    "bin": Column(is_hidden=True),
    "is_faint": Column(is_hidden=True),
}
CHARTS = (
    Chart("bars", "drift", "share", "bars", colour="sign", split="title", faint="is_faint",
          hover=("title", "drift", "blocks", "share"), picks="option:bin:bin"),
)  # fmt: skip
TABLES = ()
CUT = "cut"  # the bar, and the value of ``bin``, of blocks of unknown drift, since they were cut
MOST_GROUPS = 8


@dataclass(slots=True)
class Group:
    """The blocks of one LP, element, axis ..."""

    name: str
    by_drift: dict[int, int] = field(default_factory=dict)
    cut: int = 0  # of unknown drift, closed by force
    other: int = 0  # of unknown drift: unread, or unverified

    @property
    def total(self) -> int:
        return sum(self.by_drift.values()) + self.cut + self.other


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    by, picked = options["by"], options["bin"] or ""
    runs = [facts_of(entry) for entry in entries]
    groups = _groups_by_axis(store, runs) if by == "axis" else _groups(store, runs, by)
    kept = groups if by == "axis" else sorted(groups, key=lambda group: -group.total)[:MOST_GROUPS]
    drifts = _places(kept)
    bars = [bar for group in kept for bar in _bars(group, drifts, by, picked, _members(group, runs, by))]
    about = {
        "left_out": len(groups) - len(kept),
        "of_bins": _of_bins(runs),
        "cut": sum(group.cut for group in kept),
        "other": sum(group.other for group in kept),
    }
    return {
        "main": rows_table([row for row in bars if row["blocks"]], ["title", "drift", "sign", "blocks", "share"]),
        "bars": rows_table(bars if any(group.total for group in groups) else []),
        "about": rows_table([about]),
    }


def _places(groups: Sequence[Group]) -> list[int | None]:
    """Of the bars, from -1 to 1 at least; the first, None, is of cut blocks, where there are some."""
    known = [drift for group in groups for drift in group.by_drift]
    drifts: list[int | None] = [*range(min([*known, -1]), max([*known, 1]) + 1)]
    if any(group.cut for group in groups):
        drifts.insert(0, None)
    return drifts


def _groups(store: Store, runs: Sequence[RunFacts], by: By) -> list[Group]:
    ids = [run.run_id for run in runs]
    sql = f"""SELECT {GROUPS[by]} AS "group", drift, count(*) AS blocks,
            count_if(list_contains(kinds, '{CUT}'))::BIGINT AS cut
        FROM blocks JOIN runs USING (run_id) WHERE list_contains($runs, run_id) GROUP BY ALL ORDER BY ALL"""
    groups: dict[str, Group] = {}
    for row in store.table(sql, {"runs": ids}, of=ids).to_pylist():
        group = groups.setdefault(row["group"], Group(row["group"]))
        if row["drift"] is None:
            group.cut, group.other = row["cut"], row["blocks"] - row["cut"]
        else:
            group.by_drift[row["drift"]] = row["blocks"]
    return list(groups.values())


def _groups_by_axis(store: Store, runs: Sequence[RunFacts]) -> list[Group]:
    """Of coordinates of known drift."""
    counts = {axis: Counter[int]() for axis in AXES}
    for run in runs:
        drifts = axis_drifts(store, run)
        for axis, of_axis in counts.items():
            of_axis.update(drifts[axis].to_pylist())
    return [Group(axis, dict(of_axis)) for axis, of_axis in counts.items()]


def _members(group: Group, runs: Sequence[RunFacts], by: By) -> list[RunFacts]:
    """The runs that are in it whole; of an axis or an element all of them."""
    return [run for run in runs if by in ("axis", "element") or group.name == of_run(run)[by]]


def _bars(
    group: Group, drifts: Sequence[int | None], by: By, picked: str, members: Sequence[RunFacts]
) -> Iterator[dict[str, Any]]:
    """One a drift; None is that of cut blocks."""
    is_hypothetical = all(run.is_hypothetical for run in members)
    title = members[0].name if by == "run" else group.name
    is_filtered = picked == CUT or picked.startswith(f"{by}~")
    for drift in drifts:
        bin_ = CUT if drift is None else f"{by}~{group.name}~{drift}"
        blocks = group.cut if drift is None else group.by_drift.get(drift, 0)
        yield {
            "group": group.name,
            "title": title + " (hypothetical)" * is_hypothetical,
            "drift": CUT if drift is None else signed(drift),
            "sign": "hypothetical" if is_hypothetical else sign_of(drift),
            "blocks": blocks,
            "share": blocks / group.total if group.total else 0.0,
            "bin": bin_,
            "is_faint": is_filtered and picked != bin_,
        }


def sign_of(drift: int | None) -> str:
    if drift is None or drift < 0:
        return CUT
    return "junk-prone" if drift else "exact"


def _of_bins(runs: Sequence[RunFacts]) -> str:
    """A sentence about those whose numbers all have the same digits, or that have codes; else empty."""
    kinds = {BinFormat: "numbers of bins, all of one width", CodeFormat: "codes, of one token each"}
    named = [
        (", ".join(run.name for run in runs if isinstance(run.form, kind)), words) for kind, words in kinds.items()
    ]
    return " ".join(f"{names}: {words}, so that nothing can drift." for names, words in named if names)


def of_run(run: RunFacts) -> dict[By, str]:
    """The groups that a run is in whole."""
    return {"run": run.run_id, "tokenizer": run.tokenizer or "unknown", "lp": run.lp or "unknown"}


def answer(tables: Tables, options: Options) -> str:
    shares: dict[str, dict[bool, float]] = {}
    for row in tables["main"].to_pylist():
        of_group = shares.setdefault(row["title"], {True: 0.0, False: 0.0})
        if row["drift"] != "0":
            of_group[row["drift"].startswith("+")] += row["share"]
    if not shares:
        return "No block of these runs has a known drift."
    (about,) = tables["about"].to_pylist()
    noun = "coordinates" if options["by"] == "axis" else "blocks"
    lines = [
        f"{title}: {percent(share[True])} of {noun} above 0, {percent(share[False])} below 0 or cut."
        for title, share in shares.items()
    ]
    notes = [
        about["of_bins"],
        f"{counted(about['cut'], 'cut block')}: missing length unknown." if about["cut"] else "",
        f"Not drawn: {about['other']:,} unread or unverified." if about["other"] else "",
        f"The {MOST_GROUPS} largest of {MOST_GROUPS + about['left_out']} groups." if about["left_out"] else "",
    ]
    return answer_text(lines, [" ".join(filter(None, notes))])
