"""The Logit health page's choice of logs: what the table shows of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.figures.words import precision_name, shortened
from engine.logits.causes import CERTAINTY_LABELS, TITLES
from engine.logits.first_logs import first_logs
from engine.logits.health import has_values
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._shared.entry_picker import EntryPicker, origin_column, per_cent, rate_column, time_column
from pages._shared.selection import Selection, SelectionQuery

FILTERS_FROM = 8
_EMPTY = """
Three ways to get a first log:

- Import or record one below, under *Logs*.
- Import files from a terminal: `.venv/bin/python -m engine logits add 'logs/*.jsonl.gz'`
- Record one during a run:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --sample-size 8 --log-logits 10 --add-log`

The figures that the report states of six models are below, under *Models*.
"""


def chosen_logs(store: Store) -> LogSelection | None:
    """Draw the table of logs and give those that are shown."""
    picker = EntryPicker(QUERY, _row, _columns(), _EMPTY, origins=("measured", "imported"), filters_from=FILTERS_FROM)
    return picker.show(store.found(LOGIT_LOG))


def _row(entry: Entry) -> dict[str, Any]:
    row, entries = entry.row, entry.row["entries"]
    flagged, garbage = row.get("flagged_entries"), row.get("garbage_entries")
    return {
        "engine": row["engine"],
        "model": row.get("model"),
        "precision": precision_name(row.get("precision")),
        "entries": entries,
        "values": row["values_logged"],
        "flagged": None if flagged is None or not entries else per_cent(flagged / entries),
        "report": None if garbage is None or not entries else per_cent(garbage / entries),
        "cause": _cause(entry),
        "file": row.get("file"),
        "origin": row["origin"],
        "made": row.get("created_at"),
        "label": row.get("label"),
        "notes": row.get("notes"),
    }


def _cause(entry: Entry) -> str:
    """In words; of a log whose files are gone, that."""
    if not has_values(entry):
        return "its values are missing or damaged"
    cause, certainty = entry.row.get("cause"), entry.row.get("certainty")
    if cause is None:
        return "nothing flagged" if entry.row.get("flagged_values") == 0 else ""
    certainty = CERTAINTY_LABELS.get(str(certainty), certainty)
    return TITLES.get(cause, cause) + (f" ({certainty})" if certainty else "")


def _columns() -> dict[str, Any]:
    config = st.column_config
    return {
        "engine": config.TextColumn("engine", width=200),
        "model": config.TextColumn("model", width=120),
        "precision": config.TextColumn("precision", width=76),
        "entries": config.NumberColumn("entries", width=72, format="localized", help="Lines with values"),
        "values": config.NumberColumn("values", width=80, format="localized"),
        "flagged": rate_column("flagged", "Entries with a value that our rules flag, on purpose or not"),
        "report": rate_column("by report", "Entries with a huge number: garbage by the report's own rule"),
        "cause": config.TextColumn("likely cause", width=180),
        "file": config.TextColumn("file", width=150),
        "origin": origin_column(),
        "made": time_column("imported"),
        "label": config.TextColumn("label", width=120),
        "notes": config.TextColumn("notes", width=200),
    }


MOST_CHARS = 40
"""Of a part of a name."""


@dataclass(frozen=True, slots=True)
class LogSelection(Selection):
    """A log, and another beside it or none. The first is parity's control."""

    def short_name(self, entry: Entry) -> str:
        """Engine, model and precision, and what else tells two of the same apart."""
        name = log_name(entry)
        if sum(log_name(other) == name for other in self.entries) == 1:
            return name
        return f"{name} · {shortened(str(entry.row.get('label') or entry.row.get('file') or entry.id), MOST_CHARS)}"


def log_name(entry: Entry) -> str:
    """Engine, model and precision. Anybody's text."""
    engine, model, precision = (entry.row.get(column) for column in ("engine", "model", "precision"))
    return joined_names(engine, model, precision_name(precision))


def joined_names(*names: str | None) -> str:
    return " · ".join(shortened(str(name), MOST_CHARS) for name in names if name)


def default_choice(entries: Sequence[Entry]) -> LogSelection | None:
    logs = first_logs(entries)
    return LogSelection(logs[0], logs[1:]) if logs else None


QUERY = SelectionQuery(LOGIT_LOG, "log", "log", "beside", 1, LogSelection, default_choice)
