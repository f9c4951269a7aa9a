"""The values that two logs have in common, pair by pair, and sums over their entries.

Entries are matched by checkpoint, text and token_idx, values by position. A source that a log gives to one text is its
name: where logs share names, texts are matched by name, else the n-th of one log with the n-th of the other. How far
two logs agree is not judged here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.logits.batches import Real, Whole
from engine.logits.health import check_values
from engine.logits.repeats import Marks
from engine.store.entries import Entry
from engine.store.store import Store

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
    WHERE $checkpoint::VARCHAR IS NULL OR checkpoint = $checkpoint::VARCHAR
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


@dataclass(frozen=True, slots=True, eq=False)
class MatchedEntries:
    """The M entries that both logs have, in the control's order."""

    entry: Whole  # [M] the control's
    checkpoint: NDArray[np.object_]  # [M]
    token_idx: Whole  # [M]
    sequence: Whole  # [M] the control's count of texts


@dataclass(frozen=True, slots=True, eq=False)
class ValuePairs:
    """N pairs of values in the control's order, NaN among them."""

    entry: Whole  # the control's
    position: Whole
    control: Real
    test: Real
    is_flagged: Marks  # either of them

    def where(self, kept: Marks) -> ValuePairs:
        return ValuePairs(*(getattr(self, field.name)[kept] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.entry)

    @property
    def is_finite(self) -> Marks:
        return np.asarray(np.isfinite(self.control) & np.isfinite(self.test))

    @property
    def sound(self) -> ValuePairs:
        """Those of finite values without a flag."""
        return self.where(self.is_finite & ~self.is_flagged)


def is_by_number(store: Store, control: Entry, test: Entry) -> bool:
    """Whether several texts are matched by their numbers alone."""
    (row,) = pair_table(store, _BY_NAME, control, test).to_pylist()
    return not row["by_name"] and row["texts"] > 1


def pairs_of(
    store: Store, control: Entry, test: Entry, checkpoint: str | None = None
) -> tuple[MatchedEntries, ValuePairs]:
    """Of one checkpoint, or of all; damaged logs are an error."""
    for entry in (control, test):
        check_values(store, entry)
    entries = pair_table(store, _ENTRIES, control, test, checkpoint)
    values = pair_table(store, _VALUES, control, test, checkpoint)
    return (
        MatchedEntries(*(entries[field.name].to_numpy() for field in fields(MatchedEntries))),
        ValuePairs(*(values[field.name].to_numpy() for field in fields(ValuePairs))),
    )


def pair_table(store: Store, sql: str, control: Entry, test: Entry, checkpoint: str | None = None) -> pa.Table:
    """Rows of two logs, of SQL with ``MET`` in it."""
    parameters = {"control": control.id, "test": test.id, "checkpoint": checkpoint}
    return store.table(sql, parameters, of=[control.id, test.id])


class EntryGroups:
    """Values in order of their entries, summed and ranked within each."""

    def __init__(self, entry: Whole) -> None:
        self.starts = np.flatnonzero(np.concatenate([[True], entry[1:] != entry[:-1]]))
        self.widths = np.diff(np.append(self.starts, len(entry)))
        self.row = np.repeat(np.arange(len(self.starts)), self.widths)

    def sums(self, values: Real) -> Real:
        return np.asarray(np.add.reduceat(values, self.starts))

    def cosine(self, one: Real, other: Real) -> Real:
        """Scaled first: huge numbers have no square."""
        scaled = []
        for values in (one, other):
            most = np.maximum.reduceat(np.abs(values), self.starts)[self.row]
            scaled.append(np.divide(values, most, out=np.zeros_like(values), where=most > 0))
        return self._angle(*scaled)

    def ranked(self, one: Real, other: Real) -> Real:
        """Spearman's correlation; what is equal shares its rank."""
        ranks = [self._ranks(values) for values in (one, other)]
        return self._angle(*(rank - (self.sums(rank) / self.widths)[self.row] for rank in ranks))

    def _angle(self, one: Real, other: Real) -> Real:
        """Its cosine, entry by entry."""
        return ratio(self.sums(one * other), np.sqrt(self.sums(one**2)) * np.sqrt(self.sums(other**2)))

    def _ranks(self, values: Real) -> Real:
        width = int(self.widths[0])
        if (self.widths != width).any():
            order = np.lexsort((values, self.row))
        else:  # entries of one width are sorted one by one, which is faster
            within = np.argsort(values.reshape(-1, width), axis=1, kind="stable")
            order = (within + self.starts[:, None]).reshape(-1)
        ordered, row = values[order], self.row[order]
        is_new = np.concatenate([[True], (ordered[1:] != ordered[:-1]) | (row[1:] != row[:-1])])
        begins = np.flatnonzero(is_new)
        ends = np.append(begins[1:], len(values)) - 1
        ranks = np.empty(len(values))
        ranks[order] = np.repeat((begins + ends) / 2, ends - begins + 1)
        return ranks

    def top(self, values: Real) -> Whole:
        """The place of each entry's largest value."""
        best = np.maximum.reduceat(values, self.starts)[self.row]
        where = np.where(values == best, np.arange(len(values)), len(values))
        return np.asarray(np.minimum.reduceat(where, self.starts))


def ratio(over: Real, under: Real) -> Real:
    """NaN where the divisor is 0."""
    return np.asarray(np.divide(over, under, out=np.full(len(over), np.nan), where=under > 0))
