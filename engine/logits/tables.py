"""A flagged batch as rows of the store's tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.logits.batches import EntryBatch, Real, Whole
from engine.logits.detect import BatchFlags
from engine.logits.flags import FLAGS, Flags
from engine.logits.rules import Rules
from engine.logits.tally import is_garbage
from engine.store.schema import LOGIT_ENTRIES, LOGIT_VALUES, Table


def tables_of(log_id: str, first: int, batch: EntryBatch, flagged: BatchFlags, rules: Rules) -> dict[str, pa.Table]:
    """``first`` counts the log's entries before this batch."""
    return {
        LOGIT_ENTRIES.name: _entries(log_id, first, batch, flagged, rules),
        LOGIT_VALUES.name: _values(log_id, first, batch, flagged),
    }


def _entries(log_id: str, first: int, batch: EntryBatch, flagged: BatchFlags, rules: Rules) -> pa.Table:
    starts = batch.starts[:-1]
    finite = np.where(np.isfinite(batch.values), batch.values, np.nan)
    least = np.fmin.reduceat(finite, starts)
    largest = np.fmax.reduceat(finite, starts)
    columns = {
        "log_id": pa.repeat(pa.scalar(log_id), len(batch)),
        "entry": np.arange(first, first + len(batch)),
        "line": batch.line,
        "checkpoint": _checkpoints(batch.checkpoint),
        "token_idx": batch.token_idx,
        "sequence": batch.sequence,
        "source": list(batch.source),
        "ts": list(batch.ts),
        "values_logged": batch.widths,
        "middle": _or_null(flagged.middle),
        "spread": _or_null(flagged.spread),
        "least": _or_null(least),
        "largest": _or_null(largest),
        "top": _tops(batch, flagged.flags),
        "flagged": np.add.reduceat((flagged.flags != 0).astype(np.int64), starts),
        "flags": flag_lists(np.bitwise_or.reduceat(flagged.flags, starts)),
        "is_garbage": is_garbage(batch, rules),
    }
    return _table(LOGIT_ENTRIES, columns)


def _values(log_id: str, first: int, batch: EntryBatch, flagged: BatchFlags) -> pa.Table:
    entry = batch.entry_of_value
    columns = {
        "log_id": pa.repeat(pa.scalar(log_id), len(entry)),
        "entry": entry + first,
        "checkpoint": _checkpoints(batch.checkpoint, entry),
        "token_idx": batch.token_idx[entry],
        "position": batch.positions,
        "value": batch.values,
        "flags": flag_lists(flagged.flags),
    }
    return _table(LOGIT_VALUES, columns)


def flag_lists(flags: Flags) -> pa.ListArray:
    """The names of each value's flags."""
    offsets = np.zeros(len(flags) + 1, dtype=np.int32)
    np.cumsum(np.bitwise_count(flags), out=offsets[1:])
    some = flags[flags != 0]  # most have none
    is_set = (some[:, None] >> np.arange(len(FLAGS), dtype=np.uint8)) & 1
    names = pa.array(FLAGS, pa.string()).take(pa.array(np.nonzero(is_set)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), names)


def _tops(batch: EntryBatch, flags: Flags) -> pa.Array:
    """The position of each entry's largest value without a flag; null where there is none."""
    values = np.where((flags == 0) & np.isfinite(batch.values), batch.values, -np.inf)
    starts = batch.starts[:-1]
    best = np.maximum.reduceat(values, starts)
    is_best = values == np.repeat(best, batch.widths)
    where = np.where(is_best, np.arange(len(values)), len(values))
    place = np.minimum.reduceat(where, starts)
    return pa.array(batch.positions[place], mask=np.isneginf(best))


def _checkpoints(names: NDArray[np.object_], entry: Whole | None = None) -> pa.Array:
    """Of entries, or of values by their entries; there are few different ones."""
    if len(set(names.tolist())) == 1:
        return pa.repeat(pa.scalar(str(names[0])), len(names) if entry is None else len(entry))
    texts = pa.array(names, pa.string())
    return texts if entry is None else texts.take(pa.array(entry))


def _or_null(values: Real) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _table(table: Table, columns: Mapping[str, object]) -> pa.Table:
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    return pa.table([arrays[column.name].cast(column.type) for column in table], schema=table.schema)
