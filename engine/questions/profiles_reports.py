"""What report 003 counts in its two traces, and what it derived wrongly from that.

Its figures are as it states them, not measured here. *Ours* is computed from the report's own counts by the formula
next to it. The traces cover different work: compare ratios and figures per token, not totals. The same counts of other
traces are under *Launches*.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.figures.statistics import quotient
from engine.figures.words import listed, times
from engine.profile.reported import load_reported, reported_counts
from engine.questions.question import Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "What did report 003 count?"
OF = Of("trace", least=1, most=2)
OPTIONS = ()
COLUMNS = {
    "trace": Column("trace"),
    "what": Column("figure", is_pinned=True),
    "calls": Column("number"),
    "total_us": Column("time", "µs"),
    "mean_us": Column("each", "µs"),
    "a_token": Column("per token"),
    "stated": Column("report 003 (reported)"),
    "ours": Column("ours, from its counts"),
    "unit": Column("unit"),
    "from": Column("computed as"),
    "why": Column("why"),
}
CHARTS = ()
TABLES = ("main", "derived")


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    return {
        "main": rows_table(reported_counts()),
        "derived": rows_table(load_reported()[1], ["what", "stated", "ours", "unit", "why", "from"]),
    }


def answer(tables: Tables, options: Options) -> str:
    rows, derived = tables["main"].to_pylist(), tables["derived"].to_pylist()
    launches = [row["calls"] for row in rows if row["what"] == "launches of all kernels"]
    attention = [row["calls"] for row in rows if row["what"] == "fmha"]
    ratios = [f"{times(quotient(pair[1], pair[0]))} the {what}" for pair, what in
              ((launches, "kernel launches"), (attention, "attention calls"))]  # fmt: skip
    given = sum(row["ours"] is not None for row in derived)
    return (
        f"Report 003: Qwen's trace has {listed(ratios)} of LLaMA's. {len(derived)} figures that it derived from its "
        f"counts are wrong: {given} differ when computed from its own numbers, and {len(derived) - given} has a wrong "
        "name. Most errors come from counting steps as tokens, and from assuming 24 layers in both models."
    )
