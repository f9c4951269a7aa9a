"""Which logs a first visit looks at: the two of one model by two engines that have most to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.logits.health import has_values
from engine.logits.late_reads import is_damaged
from engine.store.entries import Entry

MOST_PAIRED = 100
"""Of the newest logs."""


def first_logs(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Two logs, or the newest one where no two make a pair; none where none has values.

    Undamaged logs before damaged ones, then those of one precision, of a run here, with most entries, then the newest.
    """
    newest = [entry for entry in reversed(entries) if has_values(entry)][:MOST_PAIRED]
    pairs = [
        (log, other)
        for place, log in enumerate(newest)
        for other in newest[place + 1 :]
        if _is_pair(log.row, other.row)
    ]
    if pairs:
        return max(pairs, key=_worth)  # of equals the first: the newest
    return tuple(newest[:1])


def _is_pair(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(row.get("model")) and row["model"] == other.get("model") and row["engine"] != other["engine"]


def _worth(pair: tuple[Entry, Entry]) -> tuple[int, bool, int, int]:
    rows = [entry.row for entry in pair]
    sound, ours = sum(not is_damaged(entry) for entry in pair), sum(row["origin"] == "measured" for row in rows)
    is_same = rows[0].get("precision") == rows[1].get("precision")
    return sound, is_same, ours, min(row["entries"] for row in rows)
