"""Garbage of stored logs by the model, engine and precision that they name, the worst first.

By the report's rule an entry with a huge number is garbage; by ours an entry is damaged that has a flagged value which
is no mask and no padding. The interval is the 95 % one (Wilson) of a share of entries. A log that was read late has
real values of another token: that shows under Health alone. What report 004 states of six models is in docs/parity.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from engine.errors import DriftscopeError
from engine.figures.statistics import wilson
from engine.figures.words import counted, percent, precision_name, span
from engine.logits.causes import cause_words, positions_in_words
from engine.logits.health import health
from engine.logits.parity import log_name
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Which logs have garbage?"
MOST = 40
OF = Of("log", least=1, most=MOST)
THEIRS, OURS = "the report's rule", "our rules"
OPTIONS = (Option("rule", None, "Garbage by", (THEIRS, OURS), help="Of the chart; the table has both"),)
COLUMNS = {
    "engine": Column("engine", is_pinned=True),
    "log": Column("open", page="logits"),
    "vocabulary": Column("vocabulary", help="Row length, by the shape of the entries"),
    "by_report": Column(THEIRS, "%", "Entries with a huge number: the report's own rule"),
    "by_ours": Column(OURS, "%", "Entries with a damaged value, masks and padding left out"),
    "positions": Column("positions", help="With damaged values"),
    "least": Column("least", help="In size, of the damaged values"),
    "cause": Column("likely cause"),
    "share": Column("entries with garbage", "%", is_hidden=True),
    **{name: Column(is_hidden=True) for name in ("name", "lane", "low", "high", "id")},
}
CHARTS = (
    Chart("points", "share", "lane", colour="model", low="low", high="high", picks="page:logits:log",
          hover=("name", "share", "low", "high", "entries")),
)  # fmt: skip


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows, left_out = [], []
    for entry in entries:
        try:
            report, row = health(store, entry), entry.row
        except DriftscopeError:  # its values are gone, or damaged
            left_out.append({"id": entry.id})
            continue
        share = report["garbage_share" if options["rule"] == THEIRS else "damaged_share"]
        low, high = wilson(round(share * report["entries"]), report["entries"])
        damaged = [item["position"] for item in report["positions"] if item["damaged"]]
        precision = precision_name(report["precision"])
        rows.append(
            {
                "engine": report["engine"],
                "model": report["model"] or "",
                "precision": precision,
                "by_report": report["garbage_share"],
                "by_ours": report["damaged_share"],
                "cause": cause_words(row),
                "positions": positions_in_words(damaged) if damaged else "",
                "vocabulary": report["length"],
                **{name: report[name] for name in ("entries", "values", "least", "largest")},
                "log": urlencode({"view": "Health", "log": entry.id}),
                "origin": row["origin"],
                "id": entry.id,
                "name": log_name(row),
                "lane": f"{report['engine']} {precision or ''}",
                "share": share,
                "low": low,
                "high": high,
            }
        )
    rows.sort(key=lambda row: (-max(row["by_report"], row["by_ours"]), row["name"]))
    main = rows_table(rows, ["engine", "model", "precision", "by_report", "by_ours"])
    return {"main": main, "notes": rows_table(left_out, ["id"])}


def answer(tables: Tables, options: Options) -> str:
    rows, left_out = tables["main"].to_pylist(), tables["notes"]["id"].to_pylist()
    theirs, ours = (sum(row[name] > 0 for row in rows) for name in ("by_report", "by_ours"))
    lines = [f"Of {counted(len(rows), 'log')}, {theirs} with garbage by the report's rule, {ours} damaged by ours."]
    worst = max(rows, key=lambda row: row["share"], default=None)
    if worst and worst["share"]:
        ends = span(worst["low"], worst["high"], percent)
        where = f", at {worst['positions']}" if worst["positions"] else ""
        lines.append(
            f"Most by {options['rule']}: {worst['name']}, {percent(worst['share'])} of its "
            f"{counted(worst['entries'], 'entry', 'entries')} ({ends}){where}."
        )
    notes = [f"Left out, values not readable: {', '.join(left_out)}; see python -m engine verify."] if left_out else []
    return answer_text(lines, notes)
