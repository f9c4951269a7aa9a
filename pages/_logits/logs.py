"""The Logit health page's choice of logs: what the table shows of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.figures.words import precision_name
from engine.logits import parity
from engine.logits.causes import CERTAINTY_LABELS, TITLES
from engine.logits.health import has_values
from engine.logits.pairs import first_logs, is_damaged
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._shared.entry_picker import EntryPicker, origin_column, per_cent, rate_column
from pages._shared.selection import Selection, SelectionQuery

FILTERS_FROM = 8
_EMPTY = """
Three ways to get a first log:

- Import or record one below, under *Logs*.
- Import files from a terminal: `.venv/bin/python -m engine logits add 'logs/*.jsonl.gz'`
- Record one during a run:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --sample-size 8 --log-logits 10 --add-log`
"""


def chosen_logs(store: Store) -> LogSelection | None:
    """Draw the table of logs and give those that are shown."""
    picker = EntryPicker(QUERY, _row, _columns(), _EMPTY, origins=("measured", "imported"), filters_from=FILTERS_FROM)
    st.session_state.pop("log_picker_default", None)  # the default is the view's
    return picker.show(store.found(LOGIT_LOG))


def _row(entry: Entry) -> dict[str, Any]:
    row, entries = entry.row, entry.row["entries"]
    flagged, garbage = row.get("flagged_entries"), row.get("garbage_entries")
    cause, certainty = row.get("cause"), str(row.get("certainty"))
    if not has_values(entry):
        words = "its values are missing or damaged"
    elif cause is None:
        words = "nothing flagged" if row.get("flagged_values") == 0 else ""
    else:
        words = f"{TITLES.get(cause, cause)} ({CERTAINTY_LABELS.get(certainty, certainty)})"
    return {
        **{name: row.get(name) for name in ("engine", "model", "entries")},
        "precision": precision_name(row.get("precision")),
        "values": row["values_logged"],
        "flagged": None if flagged is None or not entries else per_cent(flagged / entries),
        "report": None if garbage is None or not entries else per_cent(garbage / entries),
        "cause": words,
        **{name: row.get(name) for name in ("file", "origin", "label")},
    }


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
        "label": config.TextColumn("label", width=120),
    }


@dataclass(frozen=True, slots=True)
class LogSelection(Selection):
    """A log, and another beside it or none. The first is parity's control."""

    def short_name(self, entry: Entry) -> str:
        return log_name(entry)


def log_name(entry: Entry) -> str:
    """Engine, model and precision. Anybody's text."""
    return parity.log_name(entry.row)


def default_choice(entries: Sequence[Entry]) -> LogSelection | None:
    """Health opens on the newest damaged log, where there is one: it has something to say."""
    logs = first_logs(entries)
    damaged = [entry for entry in reversed(entries) if is_damaged(entry) and has_values(entry)]
    if st.query_params.get("view") == "Health" and damaged:
        logs = (damaged[0],)
    return LogSelection(logs[0], logs[1:]) if logs else None


QUERY = SelectionQuery(LOGIT_LOG, "log", "log", "beside", 1, LogSelection, default_choice)
