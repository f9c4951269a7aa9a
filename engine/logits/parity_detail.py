"""Where two logs differ: by position, value against value, and what only one of them logged.

All of it is of one checkpoint, since positions of two checkpoints mean different things. Differences are of finite
values without a flag; flagged pairs are counted separately.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from engine.inspection.memo import computed_once
from engine.logits.batches import Whole
from engine.logits.health import check_values
from engine.logits.pairs import MET, ValuePairs, pair_table, pairs_of
from engine.store.entries import Entry
from engine.store.store import Store

MOST_CACHED = 8
MOST_POSITIONS = 2_000
"""Of one answer; those with the largest differences are kept."""
MOST_SOUND, MOST_FLAGGED = 3_000, 1_000
"""Pairs that are drawn one by one."""

_LOGGED = """
SELECT checkpoint, log_id, count(*) AS entries, sum(values_logged)::BIGINT AS values,
       min(token_idx) AS first_token, max(token_idx) AS last_token, count(DISTINCT sequence) AS texts,
       min(entry) AS place
FROM logit_entries GROUP BY ALL
"""
_BOTH = f"{MET} SELECT checkpoint, count(*) AS entries FROM met GROUP BY ALL"


@dataclass(frozen=True, slots=True)
class LoggedEntries:
    """What one log has of a checkpoint."""

    entries: int
    values: int
    texts: int
    first_token: int
    last_token: int


@dataclass(frozen=True, slots=True)
class CheckpointCoverage:
    """A checkpoint of two logs; null where a log has nothing of it."""

    checkpoint: str
    control: LoggedEntries | None
    test: LoggedEntries | None
    both: int  # entries that meet


@dataclass(frozen=True, slots=True)
class PositionDifference:
    """Test minus control at one position; figures are null where every pair there is flagged."""

    position: int
    values: int
    flagged: int  # pairs
    mean_difference: float | None  # in size
    max_difference: float | None
    shift: float | None  # mean, with its sign


@dataclass(frozen=True, slots=True, eq=False)
class ParityDetail:
    """``sound`` and ``flagged`` are all pairs of the checkpoint, of which ``points`` are some, evenly spread."""

    checkpoint: str
    positions: tuple[PositionDifference, ...]  # by position
    positions_left_out: int
    points: ValuePairs
    token_idx: Whole  # of the points
    sound: int
    flagged: int
    not_finite: int  # of the flagged ones: these have no place among the points


_COLUMNS = [column.name for column in fields(LoggedEntries)]


@computed_once(MOST_CACHED)
def coverage(store: Store, control: Entry, test: Entry) -> tuple[CheckpointCoverage, ...]:
    """Every checkpoint of either log, the control's first; also of logs that share nothing."""
    for entry in (control, test):
        check_values(store, entry)
    rows = store.table(_LOGGED, of=[control.id, test.id]).to_pylist()
    rows.sort(key=lambda row: (row["log_id"] != control.id, row["place"]))
    both = {row["checkpoint"]: row["entries"] for row in pair_table(store, _BOTH, control, test).to_pylist()}
    logged = {(row["log_id"], row["checkpoint"]): LoggedEntries(**{k: row[k] for k in _COLUMNS}) for row in rows}
    return tuple(
        CheckpointCoverage(name, logged.get((control.id, name)), logged.get((test.id, name)), both.get(name, 0))
        for name in dict.fromkeys(row["checkpoint"] for row in rows)
    )


@computed_once(MOST_CACHED)
def detail(store: Store, control: Entry, test: Entry, checkpoint: str) -> ParityDetail:
    met, pairs = pairs_of(store, control, test, checkpoint)
    positions = _positions(pairs)
    positions.sort(key=lambda row: (row.max_difference is not None, -(row.max_difference or 0)))
    is_finite, is_flagged = pairs.is_finite, pairs.is_flagged
    sound = np.flatnonzero(is_finite & ~is_flagged)
    drawn = [_spread(sound, MOST_SOUND), _spread(np.flatnonzero(is_finite & is_flagged), MOST_FLAGGED)]
    points = pairs.where(np.sort(np.concatenate(drawn)))
    return ParityDetail(
        checkpoint=checkpoint,
        positions=tuple(sorted(positions[:MOST_POSITIONS], key=lambda row: row.position)),
        positions_left_out=max(0, len(positions) - MOST_POSITIONS),
        points=points,
        token_idx=met.token_idx[np.searchsorted(met.entry, points.entry)],
        sound=len(sound),
        flagged=len(pairs) - len(sound),
        not_finite=int((~is_finite).sum()),
    )


def _positions(pairs: ValuePairs) -> list[PositionDifference]:
    positions, where = np.unique(pairs.position, return_inverse=True)
    is_sound = pairs.is_finite & ~pairs.is_flagged
    count = len(positions)
    values = np.bincount(where[is_sound], minlength=count)
    flagged = np.bincount(where, minlength=count) - values
    difference = np.zeros(len(pairs))
    np.subtract(pairs.test, pairs.control, out=difference, where=is_sound)
    most = np.zeros(count)
    np.maximum.at(most, where, np.abs(difference))
    mean = np.bincount(where, weights=np.abs(difference), minlength=count) / np.maximum(values, 1)
    shift = np.bincount(where, weights=difference, minlength=count) / np.maximum(values, 1)
    columns = (column.tolist() for column in (positions, values, flagged, mean, most, shift))
    return [
        PositionDifference(position, sound, off, *(figures if sound else (None, None, None)))
        for position, sound, off, *figures in zip(*columns, strict=True)
    ]


def _spread(places: Whole, most: int) -> Whole:
    """At most so many, evenly: the same ones each time."""
    return np.asarray(places[np.linspace(0, len(places) - 1, min(most, len(places))).astype(np.int64)])
