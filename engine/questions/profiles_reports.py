"""What report 003 counts in its two traces, the same counts of the chosen traces, and what it derived wrongly.

The report's figures are as it states them, not measured here. *Ours* is computed from the report's own counts by the
formula next to it. Traces cover different work: compare ratios and figures per token, not totals. An empty cell means
unknown: a trace of a CPU has no launches, and there operators inside others count too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.figures.statistics import quotient
from engine.figures.words import listed, times
from engine.profile.reported import load_reported, reported_counts
from engine.questions.question import Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry, entry_names
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
COUNTS = {  # rules over rows of trace_ops; operators of a CPU have no kind of concatenation, so all are "others"
    "kernel launches": "side = 'call' AND family = 'launch'",
    "attention calls (FMHA)": "side = work AND family = 'attention'",
    "copies": "side = work AND family = 'copy'",
    "concatenations, aligned": "side = work AND family = 'concat' AND side <> 'host' AND name ILIKE '%alignedk%'",
    "concatenations, others": "side = work AND family = 'concat' AND (side = 'host' OR name NOT ILIKE '%alignedk%')",
}
OPS = """
SELECT *, coalesce(self_us, total_us) AS us, bool_or(side = 'call') OVER (PARTITION BY trace_id) AS has_calls,
       if(bool_or(side = 'device') OVER (PARTITION BY trace_id), 'device', 'host') AS work FROM trace_ops
"""
COUNT = "SELECT trace_id, '{}' AS what, sum(calls)::BIGINT AS calls, sum(us) AS us FROM ops WHERE {} GROUP BY trace_id"
SQL = f"WITH ops AS ({OPS}) {' UNION ALL '.join(COUNT.format(*count) for count in COUNTS.items())}"
KNOWN = f"SELECT trace_id, any_value(work) AS work, any_value(has_calls) AS has_calls FROM ({OPS}) GROUP BY trace_id"


def counts_of(store: Store, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """A row a trace and count of the report. None is what a trace cannot know: one of a CPU has no launches."""
    ids, names, rows = [entry.id for entry in entries], entry_names(entries), []
    found = {(row["trace_id"], row["what"]): row for row in store.table(SQL, of=ids).to_pylist()}
    known = {row["trace_id"]: row for row in store.table(KNOWN, of=ids).to_pylist()}
    for entry in entries:
        for what in COUNTS:
            row: dict[str, Any] = {"trace": names[entry.id], "what": what}
            count = found.get((entry.id, what), {"calls": 0, "us": 0.0})
            is_host = known[entry.id]["work"] == "host"
            if known[entry.id]["has_calls"] if what == "kernel launches" else not (is_host and "aligned" in what):
                row |= {
                    "calls": count["calls"],
                    "total_us": count["us"],
                    "mean_us": quotient(count["us"], count["calls"]),
                }
                row |= {"a_token": quotient(count["calls"], entry.row.get("tokens"))}
            rows.append(row)
    return rows


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    ours = counts_of(store, [entry for entry in entries if entry.row.get("origin") != "reported"])
    return {
        "main": rows_table([*reported_counts(), *ours]),
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
