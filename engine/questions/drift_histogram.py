"""Blocks by drift: the template's FREE positions minus the tokens that a block's numbers need.

Above 0 positions are left over, which junk or shorter tokens fill: it is not the share of blocks with junk. Below 0
the number has too few. Drift is known where a block has three complete numbers; how many tokens a cut block misses,
only the model could tell, so such blocks have a bar of their own. Drift of text that no template wrote is hypothetical
and did nothing. By axis coordinates of known drift are counted. A click on a bar filters the molecules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from engine.figures.words import counted, percent
from engine.inspection.axes import AXES, axis_drifts
from engine.inspection.molecules import GROUPS, By
from engine.inspection.runs import RunFacts, facts_of
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.records import BinFormat
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


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    by, picked = options["by"], options["bin"] or ""
    runs, ids = [facts_of(entry) for entry in entries], [entry.id for entry in entries]
    drifts: defaultdict[str, dict[int, int]] = defaultdict(dict)  # blocks by group and drift
    cut, other = Counter[str](), Counter[str]()  # blocks of unknown drift by group; others are unread or unverified
    if by == "axis":
        for axis in AXES:
            for run in runs:
                for of_drift in axis_drifts(store, run)[axis].value_counts().to_pylist():
                    drift = of_drift["values"]
                    drifts[axis][drift] = drifts[axis].get(drift, 0) + of_drift["counts"]
    else:
        sql = f"""SELECT {GROUPS[by]} AS "group", drift, count(*) AS blocks,
                count_if(list_contains(kinds, '{CUT}'))::BIGINT AS cut
            FROM blocks JOIN runs USING (run_id) WHERE list_contains($runs, run_id) GROUP BY ALL ORDER BY ALL"""
        for row in store.table(sql, {"runs": ids}, of=ids).to_pylist():
            of_group = drifts[row["group"]]
            if row["drift"] is None:
                cut[row["group"]], other[row["group"]] = row["cut"], row["blocks"] - row["cut"]
            else:
                of_group[row["drift"]] = row["blocks"]
    totals = {name: sum(counts.values()) + cut[name] + other[name] for name, counts in drifts.items()}
    kept = list(drifts) if by == "axis" else sorted(drifts, key=lambda name: -totals[name])[:MOST_GROUPS]
    every = [drift for name in kept for drift in drifts[name]]
    cuts = [None] if any(cut[name] for name in kept) else []
    bars = []
    for name in kept:
        members = [run for run in runs if by in ("axis", "element") or name == of_run(run)[by]]
        is_hypothetical = all(run.is_hypothetical for run in members)
        title = next(run.name for run in members) if by == "run" else name
        for drift in (*cuts, *range(min([*every, -1]), max([*every, 1]) + 1)):
            bin_ = CUT if drift is None else f"{by}~{name}~{drift}"
            sign = CUT if drift is None or drift < 0 else "junk-prone" if drift else "exact"
            blocks = cut[name] if drift is None else drifts[name].get(drift, 0)
            bars.append(
                {
                    "group": name,
                    "title": title + " (hypothetical)" * is_hypothetical,
                    "drift": CUT if drift is None else f"{drift:+d}".replace("-", "−").replace("+0", "0"),
                    "sign": "hypothetical" if is_hypothetical else sign,
                    "blocks": blocks,
                    "share": blocks / totals[name] if totals[name] else 0.0,
                    "bin": bin_,
                    "is_faint": picked != bin_ and (picked == CUT or picked.startswith(f"{by}~")),
                }
            )
    about: dict[str, Any] = {"left_out": len(drifts) - len(kept), "of_bins": _of_bins(runs)} | {
        name: sum(counts[group] for group in kept) for name, counts in (("cut", cut), ("other", other))
    }
    return {
        "main": rows_table([row for row in bars if row["blocks"]], ["title", "drift", "sign", "blocks", "share"]),
        "bars": rows_table(bars if any(totals.values()) else []),
        "about": rows_table([about]),
    }


def _of_bins(runs: Sequence[RunFacts]) -> str:
    """A sentence about those whose numbers all have the same digits; empty where there are none."""
    names = ", ".join(run.name for run in runs if isinstance(run.form, BinFormat))
    return f"{names}: numbers of bins, all of one width, so that nothing can drift." if names else ""


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
