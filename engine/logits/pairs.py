"""The values that two logs have in common, pair by pair; and logs that were read late, told by another log.

An engine that writes each step's logits over the last one's, and a logger that reads them after the next call: every
value is a real logit, of another token. No rule over one log sees that; beside a second log of the same texts, entry t
has the values that the other has at t + 1. A log without such a second one is never called sound here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.inspection.memo import computed_once
from engine.logits.causes import ON_PURPOSE
from engine.logits.health import check_values, has_values
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store

LEAST_ENTRIES, MOST_OTHERS, MOST_PAIRED = 8, 8, 100
NEARLY_ALL = 0.9  # of the entries: so many are nearer to the next token's values
NEARER = 0.1  # of the median distances: engines differ a little, a late read by none of the distance between two tokens

# Entries are matched by checkpoint, text and token_idx, values by position. A source that is one text in both logs is
# its name: where logs share names, texts are matched by name, else the n-th of one log with the n-th of the other.
MET = """
WITH named AS (
    SELECT checkpoint, source
    FROM (SELECT log_id, checkpoint, source FROM logit_entries WHERE source IS NOT NULL
          GROUP BY ALL HAVING count(DISTINCT sequence) = 1)
    GROUP BY ALL HAVING count(*) = 2
),
single AS (  -- what a log has twice is met in its order, not each with each
    SELECT *, row_number() OVER (PARTITION BY log_id, checkpoint, token_idx, name ORDER BY entry) AS twin
    FROM (SELECT *, if(checkpoint IN (SELECT checkpoint FROM named), source, sequence::VARCHAR) AS name
          FROM logit_entries)
    WHERE checkpoint NOT IN (SELECT checkpoint FROM named) OR (checkpoint, source) IN (FROM named)
),
met AS (
    SELECT c.entry AS control_entry, t.entry AS test_entry, c.checkpoint, c.token_idx, c.sequence
    FROM (SELECT * FROM single WHERE log_id = $control) AS c
    JOIN (SELECT * FROM single WHERE log_id = $test) AS t USING (checkpoint, token_idx, name, twin)
)
"""
_ENTRIES = f"{MET} SELECT control_entry AS entry, checkpoint, token_idx, sequence FROM met ORDER BY entry"
_BY_NUMBER = f"{MET} SELECT count(*) = 0 AND (SELECT max(sequence) FROM logit_entries) > 0 AS by_number FROM named"
_PAIRED = f"""
{MET}
, paired AS MATERIALIZED (
    SELECT met.control_entry AS entry, met.checkpoint, met.sequence, met.token_idx, c.position, c.value AS control,
           t.value AS test, coalesce(len(c.flags) > 0 OR len(t.flags) > 0, false) AS is_flagged
    FROM met
    JOIN logit_values AS c ON c.log_id = $control AND c.entry = met.control_entry
    JOIN logit_values AS t ON t.log_id = $test AND t.entry = met.test_entry AND t.position = c.position
)
"""
_VALUES = f"{_PAIRED} SELECT entry, position, control, test, is_flagged FROM paired ORDER BY entry, position"
# Distances are relative: root mean squares of differences, over that of the other log's values.
_DISTANCES = f"""
{_PAIRED}
, next AS (
    SELECT checkpoint, sequence, token_idx::BIGINT - 1 AS token_idx, min(entry) AS next_entry
    FROM logit_entries WHERE log_id = $control GROUP BY ALL
),
sound AS MATERIALIZED (
    SELECT * FROM paired JOIN next USING (checkpoint, sequence, token_idx) WHERE NOT is_flagged
),
near AS (
    SELECT sqrt(sum((test - control) ** 2) / sum(control ** 2)) AS own,
           sqrt(sum((test - value) ** 2) / sum(value ** 2)) AS next
    FROM sound JOIN logit_values AS v ON log_id = $control AND v.entry = next_entry AND v.position = sound.position
     AND len(flags) = 0
    GROUP BY sound.entry HAVING sum(control ** 2) > 0 AND sum(value ** 2) > 0
)
SELECT count(*) AS entries, count(*) FILTER (next < own) AS nearer, median(own) AS own, median(next) AS next FROM near
"""
Pairs = dict[str, NDArray[Any]]
"""N pairs of values in the control's order: entry (the control's), position, control, test, is_flagged (either of
them), is_finite (both of them)."""


def _table(store: Store, sql: str, control: Entry, test: Entry) -> pa.Table:
    return store.table(sql, {"control": control.id, "test": test.id}, of=[control.id, test.id])


@computed_once(4)
def pairs_of(store: Store, control: Entry, test: Entry) -> tuple[pa.Table, Pairs, bool]:
    """The entries that both logs have, in the control's order; their values; whether several texts are matched by their
    numbers alone. Damaged logs are an error."""
    check_values(store, control)
    check_values(store, test)
    values = _table(store, _VALUES, control, test)
    pairs = {name: values[name].to_numpy() for name in values.column_names}
    pairs["is_finite"] = np.isfinite(pairs["control"]) & np.isfinite(pairs["test"])
    (by_number,) = _table(store, _BY_NUMBER, control, test)["by_number"].to_pylist()
    return _table(store, _ENTRIES, control, test), pairs, by_number


def chosen(pairs: Pairs, kept: NDArray[Any]) -> Pairs:
    return {name: column[kept] for name, column in pairs.items()}


def is_damaged(entry: Entry) -> bool:
    """By the cause that was found when it was read in."""
    return entry.row.get("cause") is not None and entry.row["cause"] not in ON_PURPOSE


def late_read(store: Store, log: Entry, others: Sequence[Entry] | None = None) -> dict[str, Any] | None:
    """``nearer`` of ``entries`` have the values that ``other`` has for the next token. Against the
    first of the others (else of the store's logs), newest first, that shows it; damaged ones and other models show
    nothing, and a damaged log is not looked at."""
    if is_damaged(log) or not has_values(log) or not log.row.get("model"):
        return None
    newest = [other for other in reversed(others or store.found(LOGIT_LOG).entries) if other.id != log.id]
    same = [one for one in newest if one.row.get("model") == log.row["model"] and has_values(one)]
    able = [other for other in same if not is_damaged(other)]
    return next(filter(None, (_against(store, log, other) for other in able[:MOST_OTHERS])), None)


@computed_once(64)
def _against(store: Store, log: Entry, other: Entry) -> dict[str, Any] | None:
    (row,) = _table(store, _DISTANCES, other, log).to_pylist()
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

    pairs = [(log, other) for log, other in combinations(newest, 2) if log.row.get("model")
             and log.row["model"] == other.row.get("model") and log.row["engine"] != other.row["engine"]]  # fmt: skip
    return max(pairs, default=tuple(newest[:1]), key=lambda pair: (
        sum(not is_damaged(entry) for entry in pair), pair[0].row.get("precision") == pair[1].row.get("precision"),
        sum(entry.row["origin"] == "measured" for entry in pair), min(entry.row["entries"] for entry in pair),
    ))  # fmt: skip
