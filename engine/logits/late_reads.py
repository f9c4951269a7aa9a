"""Logs that were read late: values of the next token, clean by themselves, told by another log of the same texts.

An engine that writes each step's logits over the last one's, and a logger that reads them after the next call: every
value is a real logit, of another token. No rule over one log sees that. Beside a second log of the same texts it shows:
entry t has the values that the other has at t + 1. A log without such a second one is never called sound here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.inspection.memo import computed_once
from engine.logits.causes import ON_PURPOSE
from engine.logits.health import has_values
from engine.logits.pairs import MET, pair_table
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store

LEAST_ENTRIES = 8
NEARLY_ALL = 0.9
"""Of the entries: so many are nearer to the next token's values."""
NEARER = 0.1
"""Of the median distances: engines differ a little, a late read by none of the distance between two tokens."""
MOST_OTHERS = 8

# Distances are relative: root mean squares of differences, over that of the other log's values.
_DISTANCES = f"""
{MET}
, next AS (
    SELECT met.test_entry, met.control_entry, later.entry AS next_entry
    FROM met
    JOIN (SELECT checkpoint, sequence, token_idx, min(entry) AS entry FROM logit_entries WHERE log_id = $control
          GROUP BY ALL) AS later
      ON later.checkpoint = met.checkpoint AND later.sequence = met.sequence
     AND later.token_idx::BIGINT = met.token_idx::BIGINT + 1
),
tested AS MATERIALIZED (  -- step by step: joined by positions first, values of all entries would meet each other
    SELECT next.*, position, value AS t
    FROM next JOIN logit_values ON log_id = $test AND entry = test_entry AND len(flags) = 0
),
paired AS MATERIALIZED (
    SELECT tested.*, value AS c
    FROM tested JOIN logit_values AS v ON log_id = $control AND entry = control_entry AND v.position = tested.position
     AND len(flags) = 0
),
near AS (
    SELECT sqrt(sum((t - c) ** 2) / sum(c ** 2)) AS own, sqrt(sum((t - value) ** 2) / sum(value ** 2)) AS next
    FROM paired JOIN logit_values AS v ON log_id = $control AND entry = next_entry AND v.position = paired.position
     AND len(flags) = 0
    GROUP BY test_entry
    HAVING sum(c ** 2) > 0 AND sum(value ** 2) > 0
)
SELECT count(*) AS entries, count(*) FILTER (next < own) AS nearer, median(own) AS own, median(next) AS next FROM near
"""


@dataclass(frozen=True, slots=True)
class LateRead:
    """``nearer`` of ``entries`` have the values that ``other`` has for the next token."""

    log_id: str
    other: str
    engine: str  # of the other
    entries: int
    nearer: int


def late_read(store: Store, log: Entry, others: Sequence[Entry]) -> LateRead | None:
    """Against the first of the others, newest first, that shows it; damaged ones and other models show nothing."""
    model = log.row.get("model")
    same_model = [other for other in reversed(others) if model and other.row.get("model") == model]
    able = [other for other in same_model if other.id != log.id and has_values(other) and not is_damaged(other)]
    return next(filter(None, (_against(store, log, other) for other in able[:MOST_OTHERS])), None)


def late_in_store(store: Store, log: Entry) -> LateRead | None:
    """Against the other logs of the store; None where the log is damaged anyway, or nothing shows it."""
    if is_damaged(log) or not has_values(log):
        return None
    return late_read(store, log, store.found(LOGIT_LOG).entries)


def is_damaged(entry: Entry) -> bool:
    """By the cause that was found when it was read in."""
    return entry.row.get("cause") is not None and entry.row["cause"] not in ON_PURPOSE


@computed_once(64)
def _against(store: Store, log: Entry, other: Entry) -> LateRead | None:
    (row,) = pair_table(store, _DISTANCES, other, log).to_pylist()
    if row["entries"] < LEAST_ENTRIES or row["nearer"] < NEARLY_ALL * row["entries"]:
        return None
    if row["next"] > NEARER * row["own"]:
        return None
    return LateRead(log.id, other.id, other.row["engine"], row["entries"], row["nearer"])
