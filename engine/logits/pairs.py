"""The values that two logs have in common, pair by pair; and logs that were read late, found by another log.

An engine that writes each step's logits over the last one's, and a logger that reads them after the next call: every
value is a real logit, of another token. No rule over one log sees that; next to a second log of the same texts, entry t
has the values that the other has at t + 1. A log without such a second one is never called sound here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa

from engine.logits.causes import ON_PURPOSE
from engine.logits.health import has_values
from engine.store.entries import Entry
from engine.store.memo import computed_once
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store

LEAST_ENTRIES, MOST_OTHERS, MOST_PAIRED = 8, 8, 100
NEARLY_ALL = 0.9  # of the entries: so many are nearer to the next token's values
NEARER = 0.1  # of the median distances: engines differ a little, a late read by none of the distance between two tokens

# Entries are matched by checkpoint, text and token_idx, values by position. A source that is one text in both logs is
# its name: where logs share names, texts are matched by name, else the n-th of one log with the n-th of the other.
# ``paired`` has the pairs: entry and sequence are the control's, is_flagged is of either, is_finite of both.
PAIRED = """
WITH named AS (
    SELECT checkpoint, source
    FROM (SELECT log_id, checkpoint, source FROM logit_entries WHERE source IS NOT NULL
          GROUP BY ALL HAVING count(DISTINCT sequence) = 1)
    GROUP BY ALL HAVING count(*) = 2
),
texts AS (
    SELECT *, if(checkpoint IN (SELECT checkpoint FROM named), source, sequence::VARCHAR) AS name FROM logit_entries
    WHERE checkpoint NOT IN (SELECT checkpoint FROM named) OR (checkpoint, source) IN (FROM named)
),
paired AS MATERIALIZED (
    SELECT one.entry, checkpoint, one.sequence, token_idx, c.position, c.value AS control, t.value AS test,
           coalesce(len(c.flags) > 0 OR len(t.flags) > 0, false) AS is_flagged,
           greatest(abs(c.value), abs(t.value)) < 1e150 AS is_finite  -- and so are their squares
    FROM texts AS one JOIN texts AS other USING (checkpoint, token_idx, name)
    JOIN logit_values AS c ON c.log_id = one.log_id AND c.entry = one.entry
    JOIN logit_values AS t ON t.log_id = other.log_id AND t.entry = other.entry AND t.position = c.position
    WHERE one.log_id = $control AND other.log_id = $test
)
"""
# Distances are relative: root mean squares of differences, over that of the other log's values.
_DISTANCES = f"""
{PAIRED}
, near AS (
    SELECT sqrt(sum((p.test - p.control) ** 2) / sum(p.control ** 2)) AS own,
           sqrt(sum((p.test - v.value) ** 2) / sum(v.value ** 2)) AS next
    FROM paired AS p
    JOIN logit_entries AS e ON p.checkpoint = e.checkpoint AND p.sequence = e.sequence AND p.token_idx = e.token_idx - 1
    JOIN logit_values AS v ON v.log_id = e.log_id AND v.entry = e.entry AND v.position = p.position
    WHERE e.log_id = $control AND len(v.flags) = 0 AND NOT is_flagged
    GROUP BY p.entry HAVING sum(p.control ** 2) > 0 AND sum(v.value ** 2) > 0
)
SELECT count(*) AS entries, count(*) FILTER (next < own) AS nearer, median(own) AS own, median(next) AS next FROM near
"""


def both(store: Store, sql: str, control: Entry, test: Entry, **more: Any) -> pa.Table:
    """Rows of two logs, of SQL with ``PAIRED`` in it."""
    return store.table(sql, {"control": control.id, "test": test.id, **more}, of=[control.id, test.id])


def is_damaged(entry: Entry) -> bool:
    """By the cause that was found when it was read in."""
    return entry.row.get("cause") is not None and entry.row["cause"] not in ON_PURPOSE


def late_read(store: Store, log: Entry, others: Sequence[Entry] | None = None) -> dict[str, Any] | None:
    """``nearer`` of ``entries`` have the values that ``other`` has for the next token. Against the
    first of the others (else of the store's logs), newest first, that shows it; damaged ones and other models show
    nothing, and a damaged log is not looked at."""
    if is_damaged(log) or not has_values(log) or not log.row.get("model"):
        return None
    newest = [other for other in reversed(others or store.listing(LOGIT_LOG).entries) if other.id != log.id]
    same = [other for other in newest if other.row.get("model") == log.row["model"] and has_values(other)]
    able = [other for other in same if not is_damaged(other)]
    return next(filter(None, (_against(store, log, other) for other in able[:MOST_OTHERS])), None)


@computed_once(64)
def _against(store: Store, log: Entry, other: Entry) -> dict[str, Any] | None:
    (row,) = both(store, _DISTANCES, other, log).to_pylist()
    is_late = row["entries"] >= LEAST_ENTRIES and row["nearer"] >= NEARLY_ALL * row["entries"]
    if not is_late or row["next"] > NEARER * row["own"]:
        return None
    counts = {name: row[name] for name in ("entries", "nearer")}
    return {"log_id": log.id, "other": other.id, "engine": other.row["engine"], **counts}


def first_logs(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """What a first visit looks at: two logs of one model by two engines, or the newest log; none where none has values.

    Undamaged logs before damaged ones, then those of one precision, of a run here, with most entries, then the newest.
    """
    newest = [entry for entry in reversed(entries) if has_values(entry)][:MOST_PAIRED]

    pairs = [
        (log, other)
        for log, other in combinations(newest, 2)
        if log.row.get("model")
        and log.row["model"] == other.row.get("model")
        and log.row["engine"] != other.row["engine"]
    ]
    return max(
        pairs,
        default=tuple(newest[:1]),
        key=lambda pair: (
            sum(not is_damaged(entry) for entry in pair),
            pair[0].row.get("precision") == pair[1].row.get("precision"),
            sum(entry.row["origin"] == "measured" for entry in pair),
            min(entry.row["entries"] for entry in pair),
        ),
    )
