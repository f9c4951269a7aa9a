"""Tokens of answers that pass the reports' rule (upwards) and of those that fail it (downwards), in the same bins.

Bars are shares of the run's samples; checks of the molecule do not count here. At the limit: the answer was stopped by
the maximum number of new tokens. It cannot say how such an answer would have ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.comparing.measures import has_samples, run_names
from engine.figures.words import number
from engine.questions.question import Chart, Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "How long are passed and failed answers?"
OF = Of("run", least=1, most=41)
NEEDS_TEXTS = True
OPTIONS = ()
BINS, FEW = 24, 6
COLUMNS = {
    "name": Column("run"),
    "verdict": Column("verdict"),
    "middle": Column("tokens per answer"),
    "signed": Column("share of samples", "%", "Failed ones downwards"),
    "share": Column("share of samples", "%"),
    "samples": Column("samples"),
    "median": Column("median tokens"),
    "mean": Column("mean tokens"),
    "at_limit": Column("at the limit", help="Stopped by the maximum number of new tokens"),
    "stops_known": Column("end known"),
}
CHARTS = (
    Chart("bars", "middle", "signed", "bins", colour="verdict", split="name", size="width",
          hover=("name", "verdict", "from", "below", "samples", "share")),
)  # fmt: skip
TABLES = ("main",)
SQL = """
SELECT run_id, passed, tokens, stop_reason = 'length' AS at_limit FROM samples WHERE list_contains($runs, run_id)
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names, ids = run_names(entries), [entry.id for entry in entries if has_samples(entry)]
    table = store.table(SQL, {"runs": ids}, of=ids) if ids else rows_table([], ["run_id", "passed"])
    ids = [run_id for run_id in ids if run_id in set(table["run_id"].to_pylist())]  # others are damaged
    rows, bins = [], []
    tokens = table["tokens"].cast(pa.float64()).to_numpy() if ids else np.empty(0)
    finite = tokens[np.isfinite(tokens)]
    least, most = (int(finite.min()), int(finite.max())) if len(finite) else (0, 0)
    step = -(-(most - least + 1) // BINS)  # whole numbers, all steps equal, the last edge beyond the longest
    edges = list(range(least, most + step + 1, step))
    for run_id in ids:
        of_run = np.array([value == run_id for value in table["run_id"].to_pylist()])
        for passed in (True, False):
            chosen = of_run & (table["passed"].to_numpy() == passed)
            if not chosen.any():
                continue
            counts, limits = tokens[chosen], table["at_limit"].cast(pa.float64()).to_numpy()[chosen]
            counts = counts[np.isfinite(counts)]
            head = {"run": run_id, "name": names[run_id], "verdict": "passed" if passed else "failed"}
            rows.append(
                {
                    **head,
                    "samples": int(chosen.sum()),
                    "unknown": int(chosen.sum() - len(counts)),
                    "median": float(np.median(counts)) if len(counts) else None,
                    "mean": float(counts.mean()) if len(counts) else None,
                    "at_limit": int((limits == 1).sum()),
                    "stops_known": int(np.isfinite(limits).sum()),
                }
            )
            for low, count in zip(edges, np.histogram(counts, edges)[0].tolist(), strict=False):
                share = count / of_run.sum()
                cell = {"from": low, "below": low + step, "middle": low + step / 2, "width": step, "samples": count}
                bins.append(head | cell | {"share": share, "signed": share if passed else -share})
    return {"main": rows_table(rows, ["run", "name", "verdict"]), "bins": rows_table([b for b in bins if b["samples"]])}


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    if not rows:
        return "None of these runs has samples, so the lengths of answers are not known."
    failed = sorted((row for row in rows if row["verdict"] == "failed"), key=lambda row: -row["samples"])
    parts = []
    for row in failed[:2]:
        passed = next((r for r in rows if r["run"] == row["run"] and r["verdict"] == "passed"), row)
        words = (
            f"{row['name']}: median {number(row['median'])} tokens in {row['samples']:,} that fail the reports' rule"
        )
        words += "" if passed is row else f", {number(passed['median'])} in {passed['samples']:,} that pass it"
        few = min(row["samples"], passed["samples"]) < FEW
        parts.append(words + (" (too few to tell a difference)." if few else "."))
    if not failed:
        medians = ", ".join(f"{row['name']} {number(row['median'])}" for row in rows)
        parts.append(f"No answer fails the reports' rule. Median tokens: {medians}.")
    stops, limit = (sum(row[name] for row in rows) for name in ("stops_known", "at_limit"))
    parts.append(f"{limit:,} of {stops:,} stopped at the limit." if stops else "It is not known why answers stopped.")
    return " ".join(parts)
