"""Tokens of answers that pass the reports' rule (upwards) and of those that fail it (downwards), in the same bins.

Bars are shares of the run's samples; checks of the molecule do not count here. At the limit: the answer was stopped by
the maximum number of new tokens. It cannot say how such an answer would have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.comparing.measures import has_samples, run_names
from engine.figures.words import number
from engine.questions.question import Chart, Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "How long are passed and failed answers?"
OF = Of("run", least=1, most=41)
NEEDS_TEXTS = True
BINS, FEW = 24, 6
Row = dict[str, Any]
Real = npt.NDArray[np.float64]
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
SQL = """
SELECT run_id, passed, tokens, stop_reason = 'length' AS at_limit FROM samples WHERE list_contains($runs, run_id)
"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names, ids = run_names(entries), [entry.id for entry in entries if has_samples(entry)]
    if not ids:
        return {"main": rows_table([], ["run", "name", "verdict"]), "bins": rows_table([])}
    table = store.table(SQL, {"runs": ids}, of=ids)
    run_of, has_passed = (table[name].to_numpy() for name in ("run_id", "passed"))  # [samples]
    tokens, limits = (table[name].cast(pa.float64()).to_numpy() for name in ("tokens", "at_limit"))
    edges = edges_of(tokens[np.isfinite(tokens)])
    rows: list[Row] = []
    bins: list[Row] = []
    for run_id, passed in product(ids, (True, False)):
        of_run = run_of == run_id
        chosen = of_run & (has_passed == passed)
        if chosen.any():
            head = {"run": run_id, "name": names[run_id], "verdict": "passed" if passed else "failed"}
            rows.append(head | lengths_of(tokens[chosen], limits[chosen]))
            cells = cells_of(tokens[chosen], edges, int(of_run.sum()))
            bins += [head | cell | {"signed": cell["share"] if passed else -cell["share"]} for cell in cells]
    return {"main": rows_table(rows, ["run", "name", "verdict"]), "bins": rows_table(bins)}


def edges_of(tokens: Real) -> list[int]:
    """Of bins: whole numbers, all steps equal, the last edge beyond the longest."""
    least, most = (int(tokens.min()), int(tokens.max())) if len(tokens) else (0, 0)
    step = -(-(most - least + 1) // BINS)
    return list(range(least, most + step + 1, step))


def lengths_of(tokens: Real, limits: Real) -> Row:
    known = tokens[np.isfinite(tokens)]
    return {
        "samples": len(tokens),
        "unknown": len(tokens) - len(known),
        "median": float(np.median(known)) if len(known) else None,
        "mean": float(known.mean()) if len(known) else None,
        "at_limit": int((limits == 1).sum()),
        "stops_known": int(np.isfinite(limits).sum()),
    }


def cells_of(tokens: Real, edges: Sequence[int], samples: int) -> Iterator[Row]:
    """Bins that have an answer, as shares of so many samples."""
    counts = np.histogram(tokens[np.isfinite(tokens)], edges)[0].tolist()
    for (low, below), count in zip(pairwise(edges), counts, strict=True):
        if count:
            place = {"from": low, "below": below, "middle": (low + below) / 2, "width": below - low}
            yield place | {"samples": count, "share": count / samples}


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
