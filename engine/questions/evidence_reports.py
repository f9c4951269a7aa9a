"""What report 003 counts in its two traces, and what it derived wrongly from that.

Its figures are as it states them, not measured here. *Ours* is computed from the report's own counts by the formula
next to it. The traces cover different work: compare ratios and figures per token, not totals. The same counts of stored
traces are under *Launches* of Profiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.figures.statistics import quotient
from engine.figures.words import times
from engine.paths import DATA, read_toml
from engine.questions.question import Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "What did report 003 count?"
OF = Of("run", least=0, most=0)
OPTIONS = ()
COLUMNS = {
    "what": Column("figure", is_pinned=True),
    "calls": Column("number"),
    "total_us": Column("time", "µs"),
    "mean_us": Column("each", "µs"),
    "a_token": Column("per token"),
    "stated": Column("report 003 (reported)"),
    "ours": Column("ours, from its counts"),
    "from": Column("computed as"),
}
CHARTS = ()
TABLES = ("main", "derived")


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    file = DATA / "reported_traces.toml"
    traces, derived = read_toml(file, "file of reported traces", lambda text: (text["trace"], text["derived"]))
    rows = [
        {"trace": f"{trace['label']} (reported)", "what": op["name"], "calls": op["calls"],
         "total_us": 1e6 * op["total_s"], "mean_us": quotient(1e6 * op["total_s"], op["calls"]),
         "a_token": quotient(op["calls"], trace.get("tokens"))}
        for trace in sorted(traces, key=lambda trace: trace["trace_id"])
        for op in trace["op"]
    ]  # fmt: skip
    # What was derived wrongly: ``ours`` is null where the counts give nothing.
    wrong = [{"ours": None, "from": "", **row, "why": " ".join(row["why"].split())} for row in derived]
    return {"main": rows_table(rows), "derived": rows_table(wrong, ["what", "stated", "ours", "unit", "why", "from"])}


def answer(tables: Tables, options: Options) -> str:
    rows, ours = tables["main"].to_pylist(), tables["derived"]["ours"]
    counts = [[row["calls"] for row in rows if row["what"] == what] for what in ("launches of all kernels", "fmha")]
    launches, attention = (times(quotient(qwen, llama)) for llama, qwen in counts)
    return (
        f"Report 003: Qwen's trace has {launches} the kernel launches and {attention} the attention calls of LLaMA's. "
        f"{len(ours)} figures that it derived from its counts are wrong: {len(ours) - ours.null_count} differ when "
        f"computed from its own numbers, and {ours.null_count} has a wrong name. Most errors come from counting steps "
        "as tokens, and from assuming 24 layers in both models."
    )
