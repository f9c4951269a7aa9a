"""A log's flagged values one by one, each with the reason for its flags."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pyarrow as pa

from engine.inspection.memo import Memo
from engine.logits.flags import Flag
from engine.logits.health import DAMAGED, check_values, damage_query
from engine.logits.health_words import reasons
from engine.store.entries import Entry
from engine.store.store import Store

MOST_IN_FILE = 200_000
MOST_CACHED, MOST_ROWS_CACHED = 16, 1_000

_FILTERED = f"""
SELECT entry, checkpoint, token_idx, position, value, flags, coalesce({DAMAGED}, false) AS is_damaged
FROM logit_values WHERE len(flags) > 0 AND (len($flags::VARCHAR[]) = 0 OR list_has_any(flags, $flags::VARCHAR[]))
     AND (len($positions::INTEGER[]) = 0 OR list_contains($positions::INTEGER[], position))
     AND ($with_purpose OR ({DAMAGED}))
"""
_COUNT = f"SELECT count(*) AS values, count(DISTINCT entry) AS entries FROM ({_FILTERED})"
_ROWS = f"""
SELECT e.line, v.checkpoint, e.sequence, v.token_idx, v.position, v.value, v.flags, v.is_damaged, e.middle, e.spread
FROM ({_FILTERED}) AS v JOIN logit_entries AS e USING (entry) ORDER BY entry, position LIMIT $most
"""


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """Which values: of any flag and position where none is named."""

    flags: tuple[Flag, ...] = ()
    positions: tuple[int, ...] = ()
    with_purpose: bool = False  # masks and padding too


@dataclass(frozen=True, slots=True, eq=False)
class FlaggedValues:
    """``rows`` has the first of them: line, checkpoint, sequence, token_idx, position, value, flags, is_damaged,
    middle and spread of the entry, reason."""

    rows: pa.Table
    values: int  # in all
    entries: int


_cache: Memo[FlaggedValues] = Memo(MOST_CACHED)


def flagged_values(store: Store, entry: Entry, chosen: ValueFilter, most: int = MOST_IN_FILE) -> FlaggedValues:
    """In the order of the file. Long answers, which go into files, are not cached."""
    if most > MOST_ROWS_CACHED:
        return _flagged_values(store, entry, chosen, most)
    return _cache.of((*entry.key, chosen, most), lambda: _flagged_values(store, entry, chosen, most))


def _flagged_values(store: Store, entry: Entry, chosen: ValueFilter, most: int) -> FlaggedValues:
    check_values(store, entry)
    parameters = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(chosen).items()}
    (total,) = damage_query(store, entry, _COUNT, **parameters).to_pylist()
    rows = damage_query(store, entry, _ROWS, **parameters, most=most)
    columns = (rows[name].to_pylist() for name in ("flags", "value", "middle", "spread"))
    texts = [reasons(*values) for values in zip(*columns, strict=True)]
    return FlaggedValues(rows.append_column("reason", pa.array(texts, pa.string())), **total)
