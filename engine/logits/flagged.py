"""A log's flagged values one by one, each with its reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.inspection.memo import Memo
from engine.logits.adding import findings_in
from engine.logits.figures import DAMAGED, asked_of, check_values
from engine.logits.flags import Flag
from engine.logits.rules import load_rules
from engine.logits.words import reasons
from engine.store.entries import Entry
from engine.store.store import Store

MOST_IN_FILE = 200_000
MOST_KEPT, MOST_ROWS_KEPT = 16, 1_000

_WANTED = f"""
SELECT entry, checkpoint, token_idx, position, value, flags, coalesce({DAMAGED}, false) AS is_damaged
FROM logit_values WHERE len(flags) > 0 AND (len($flags::VARCHAR[]) = 0 OR list_has_any(flags, $flags::VARCHAR[]))
     AND (len($positions::INTEGER[]) = 0 OR list_contains($positions::INTEGER[], position))
     AND ($with_purpose OR ({DAMAGED}))
"""
_COUNT = f"SELECT count(*) AS values, count(DISTINCT entry) AS entries FROM ({_WANTED})"
_ROWS = f"""
SELECT e.line, v.checkpoint, e.sequence, v.token_idx, v.position, v.value, v.flags, v.is_damaged, e.middle, e.spread
FROM ({_WANTED}) AS v JOIN logit_entries AS e USING (entry) ORDER BY entry, position LIMIT $most
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of them: of any flag and position where none is named."""

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


_kept: Memo[FlaggedValues] = Memo(MOST_KEPT)


def flagged_values(store: Store, entry: Entry, wanted: Wanted, most: int = MOST_IN_FILE) -> FlaggedValues:
    """In the order of the file. Long answers, which go into files, are not kept."""
    if most > MOST_ROWS_KEPT:
        return _flagged_values(store, entry, wanted, most)
    return _kept.of((*entry.key, wanted, most), lambda: _flagged_values(store, entry, wanted, most))


def _flagged_values(store: Store, entry: Entry, wanted: Wanted, most: int) -> FlaggedValues:
    check_values(store, entry)
    asked: dict[str, Any] = asked_of(load_rules(), findings_in(entry)) | {
        "flags": list(wanted.flags),
        "positions": list(wanted.positions),
        "with_purpose": wanted.with_purpose,
    }
    (total,) = store.table(_COUNT, asked, of=[entry.id]).to_pylist()
    rows = store.table(_ROWS, asked | {"most": most}, of=[entry.id])
    return FlaggedValues(rows.append_column("reason", pa.array(_reasons(rows), pa.string())), **total)


def _reasons(rows: pa.Table) -> Sequence[str]:
    columns = (rows[name].to_pylist() for name in ("flags", "value", "middle", "spread"))
    return [reasons(*one) for one in zip(*columns, strict=True)]
