"""The Logit health page's choice of logs: what the table shows of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.figures.words import precision_name
from engine.logits.causes import CERTAINTY_LABELS, TITLES
from engine.logits.health import has_values
from engine.logits.pairs import first_logs, is_damaged
from engine.logits.parity import log_name
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from pages._kit.picker import Picker, origin_column, rate_column

EMPTY = """
Three ways to get a first log:

- Import or record one below, under *Logs*.
- Import files from a terminal: `.venv/bin/python -m engine logits add 'logs/*.jsonl.gz'`
- Record one during a run:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --sample-size 8 --log-logits 10 --add-log`
"""


def _cells(entry: Entry) -> dict[str, Any]:
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
        "flagged": None if flagged is None or not entries else flagged / entries,
        "report": None if garbage is None or not entries else garbage / entries,
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


def log_names(entries: Sequence[Entry]) -> dict[str, str]:
    """Engine, model and precision, and the id where these are the same. Anybody's text."""
    names = {entry.id: log_name(entry.row) for entry in entries}
    is_clear = len({*names.values()}) == len(names)
    return names if is_clear else {id_: f"{name} · {id_}" for id_, name in names.items()}


def default_choice(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Health opens on the newest damaged log, where there is one: it has something to say."""
    damaged = [entry for entry in reversed(entries) if is_damaged(entry) and has_values(entry)]
    if st.query_params.get("view") == "Health" and damaged:
        return damaged[:1]
    return first_logs(entries)


LOGS = Picker(
    LOGIT_LOG, "log", "log", "beside", 2, _cells, _columns(), default_choice, log_names, EMPTY, ("measured", "imported")
)
