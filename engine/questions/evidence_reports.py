"""What report 003 derived wrongly from the counts of its two traces.

Its figures are as it states them, not measured here. *Ours* is computed from the report's own counts by the formula
next to it. The counts themselves are those of the reported traces, under *Launches* and *Families* of Profiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.paths import DATA, read_toml
from engine.questions.question import Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "What did report 003 derive wrongly from its counts?"
OF = Of("run", least=0, most=0)
COLUMNS = {
    "what": Column("figure", is_pinned=True),
    "stated": Column("report 003 (reported)"),
    "ours": Column("ours, from its counts"),
    "why": Column(wrap_px=420),
    "from": Column("computed as"),
}


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    derived = read_toml(DATA / "reported_traces.toml", "file of reported traces", lambda document: document["derived"])
    # ``ours`` is null where the counts give nothing.
    rows = [{"ours": None, "from": "", **row, "why": " ".join(row["why"].split())} for row in derived]
    return {"main": rows_table(rows, ["what", "stated", "ours", "unit", "why", "from"])}


def answer(tables: Tables, options: Options) -> str:
    ours = tables["main"]["ours"]
    return (
        f"{len(ours)} figures that report 003 derived from its counts are wrong: {len(ours) - ours.null_count} differ "
        f"when computed from its own numbers, and {ours.null_count} has a wrong name. Most errors come from counting "
        "steps as tokens, and from assuming 24 layers in both models."
    )
