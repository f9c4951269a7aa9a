"""The values that two logs have in common, pair by pair; and logs that were read late, told by another log.

An engine that writes each step's logits over the last one's, and a logger that reads them after the next call: every
value is a real logit, of another token. No rule over one log sees that; beside a second log of the same texts, entry t
has the values that the other has at t + 1. A log without such a second one is never called sound here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from engine.inspection.memo import computed_once
from engine.logits.causes import ON_PURPOSE
from engine.logits.health import check_values, has_values
from engine.logits.rules import Marks, Real, Whole
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store

LEAST_ENTRIES, MOST_OTHERS, MOST_PAIRED = 8, 8, 100
NEARLY_ALL = 0.9  # of the entries: so many are nearer to the next token's values
NEARER = 0.1  # of the median distances: engines differ a little, a late read by none of the distance between two tokens

# Entries are matched by checkpoint, text and token_idx, values by position. A source that a log gives to one text is
# its name: where logs share names, texts are matched by name, else the n-th of one log with the n-th of the other.
# Texts are matched by source or number, so that a text that one engine ends early moves none after it. In a log whose
# texts alternate and have no source of their own, a text's number means nothing: there the n-th entries of a token are
# matched.
MET = """
WITH logged AS (
    SELECT log_id, checkpoint, token_idx, count(*) AS entries FROM logit_entries GROUP BY ALL
),
told AS (
    SELECT log_id, checkpoint, count(DISTINCT sequence) AS texts FROM logit_entries GROUP BY ALL
),
orderly AS (
    SELECT checkpoint, bool_and(texts <= most) AS is_orderly
    FROM told JOIN (SELECT log_id, checkpoint, max(entries) AS most FROM logged GROUP BY ALL) USING (log_id, checkpoint)
    GROUP BY ALL
),
names AS (
    SELECT log_id, checkpoint, source FROM logit_entries WHERE source IS NOT NULL
    GROUP BY ALL HAVING count(DISTINCT sequence) = 1
),
named AS (
    SELECT checkpoint, source
    FROM (SELECT * FROM names WHERE log_id = $control) JOIN (SELECT * FROM names WHERE log_id = $test)
         USING (checkpoint, source)
),
numbered AS (
    SELECT log_id, entry, checkpoint, token_idx, sequence,
           CASE WHEN NOT is_orderly OR checkpoint NOT IN (SELECT checkpoint FROM named) THEN ''
           WHEN (checkpoint, source) IN (FROM named) THEN source END AS name,  -- null matches nothing
           CASE WHEN NOT is_orderly THEN row_number() OVER (PARTITION BY log_id, checkpoint, token_idx ORDER BY entry)
           WHEN checkpoint IN (SELECT checkpoint FROM named) THEN 0 ELSE sequence END AS turn
    FROM logit_entries JOIN orderly USING (checkpoint)
),
single AS (  -- what a log has twice is met in its order, not each with each
    SELECT *, row_number() OVER (PARTITION BY log_id, checkpoint, token_idx, name, turn ORDER BY entry) AS twin
    FROM numbered
),
met AS (
    SELECT c.entry AS control_entry, t.entry AS test_entry, c.checkpoint, c.token_idx, c.sequence
    FROM (SELECT * FROM single WHERE log_id = $control) AS c
    JOIN (SELECT * FROM single WHERE log_id = $test) AS t USING (checkpoint, token_idx, name, turn, twin)
)
"""
_ENTRIES = f"{MET} SELECT control_entry AS entry, checkpoint, token_idx, sequence FROM met ORDER BY entry"
_BY_NAME = f"{MET} SELECT count(*) > 0 AS by_name, (SELECT max(texts) FROM told) AS texts FROM named"
_VALUES = f"""
{MET}
SELECT met.control_entry AS entry, c.position, c.value AS control, t.value AS test,
       coalesce(len(c.flags) > 0 OR len(t.flags) > 0, false) AS is_flagged
FROM met
JOIN logit_values AS c ON c.log_id = $control AND c.entry = met.control_entry
JOIN logit_values AS t ON t.log_id = $test AND t.entry = met.test_entry AND t.position = c.position
ORDER BY met.control_entry, c.position
"""
# Distances are relative: root mean squares of differences, over that of the other log's values. Joined step by step:
# by positions first, values of all entries would meet each other.
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
tested AS MATERIALIZED (
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


@dataclass(frozen=True, slots=True, eq=False)
class ValuePairs:
    """N pairs of values in the control's order, NaN among them."""

    entry: Whole  # the control's
    position: Whole
    control: Real
    test: Real
    is_flagged: Marks  # either of them
    is_finite: Marks  # both of them

    def where(self, kept: Marks | Whole) -> ValuePairs:
        return ValuePairs(*(getattr(self, name)[kept] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class LateRead:
    """``nearer`` of ``entries`` have the values that ``other`` has for the next token."""

    log_id: str
    other: str
    engine: str  # of the other
    entries: int
    nearer: int


def _table(store: Store, sql: str, control: Entry, test: Entry) -> pa.Table:
    return store.table(sql, {"control": control.id, "test": test.id}, of=[control.id, test.id])


@computed_once(4)
def pairs_of(store: Store, control: Entry, test: Entry) -> tuple[pa.Table, ValuePairs, bool]:
    """The entries that both logs have, in the control's order; their values; whether several texts are matched by their
    numbers alone. Damaged logs are an error."""
    check_values(store, control)
    check_values(store, test)
    entry, position, one, other, is_flagged = (c.to_numpy() for c in _table(store, _VALUES, control, test).columns)
    is_finite = np.isfinite(one) & np.isfinite(other)
    (by,) = _table(store, _BY_NAME, control, test).to_pylist()
    entries = _table(store, _ENTRIES, control, test)
    pairs = ValuePairs(entry, position, one, other, is_flagged, is_finite)
    return entries, pairs, not by["by_name"] and by["texts"] > 1


def late_read(store: Store, log: Entry, others: Sequence[Entry]) -> LateRead | None:
    """Against the first of the others, newest first, that shows it; damaged ones and other models show nothing."""
    model = log.row.get("model")
    same = [other for other in reversed(others) if model and other.row.get("model") == model and other.id != log.id]
    able = [other for other in same if has_values(other) and not is_damaged(other)]
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
    (row,) = _table(store, _DISTANCES, other, log).to_pylist()
    is_late = row["entries"] >= LEAST_ENTRIES and row["nearer"] >= NEARLY_ALL * row["entries"]
    if not is_late or row["next"] > NEARER * row["own"]:
        return None
    return LateRead(log.id, other.id, other.row["engine"], row["entries"], row["nearer"])


def first_logs(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """What a first visit looks at: two logs of one model by two engines, or the newest log; none where none has values.

    Undamaged logs before damaged ones, then those of one precision, of a run here, with most entries, then the newest.
    """
    newest = [entry for entry in reversed(entries) if has_values(entry)][:MOST_PAIRED]

    def worth(pair: tuple[Entry, ...]) -> tuple[int, bool, int, int]:
        rows = [entry.row for entry in pair]
        sound, ours = sum(not is_damaged(entry) for entry in pair), sum(row["origin"] == "measured" for row in rows)
        is_same = rows[0].get("precision") == rows[1].get("precision")
        return sound, is_same, ours, min(row["entries"] for row in rows)

    pairs = [(log, other) for log, other in combinations(newest, 2) if log.row.get("model")
             and log.row["model"] == other.row.get("model") and log.row["engine"] != other.row["engine"]]  # fmt: skip
    return max(pairs, key=worth, default=tuple(newest[:1]))
