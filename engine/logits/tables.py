"""A judged block as rows of the store's tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.logits.blocks import Block, Real, Whole
from engine.logits.detect import Judged
from engine.logits.flags import FLAGS, Flags
from engine.logits.rules import Rules
from engine.logits.tally import is_garbage
from engine.store.schema import LOGIT_ENTRIES, LOGIT_VALUES


def tables_of(log_id: str, first: int, block: Block, judged: Judged, rules: Rules) -> dict[str, pa.Table]:
    """``first`` counts the log's entries before this block."""
    return {
        LOGIT_ENTRIES.name: _entries(log_id, first, block, judged, rules),
        LOGIT_VALUES.name: _values(log_id, first, block, judged),
    }


def _entries(log_id: str, first: int, block: Block, judged: Judged, rules: Rules) -> pa.Table:
    starts = block.starts[:-1]
    finite = np.where(np.isfinite(block.values), block.values, np.nan)
    least = np.fmin.reduceat(finite, starts)
    largest = np.fmax.reduceat(finite, starts)
    columns = {
        "log_id": pa.repeat(pa.scalar(log_id), len(block)),
        "entry": np.arange(first, first + len(block)),
        "line": block.line,
        "checkpoint": _checkpoints(block.checkpoint),
        "token_idx": block.token_idx,
        "sequence": block.sequence,
        "source": list(block.source),
        "ts": list(block.ts),
        "values_logged": block.widths,
        "middle": _or_null(judged.middle),
        "spread": _or_null(judged.spread),
        "least": _or_null(least),
        "largest": _or_null(largest),
        "top": _tops(block, judged.flags),
        "flagged": np.add.reduceat((judged.flags != 0).astype(np.int64), starts),
        "flags": flag_lists(np.bitwise_or.reduceat(judged.flags, starts)),
        "is_garbage": is_garbage(block, rules),
    }
    return pa.table([_column(columns[one.name], one.type) for one in LOGIT_ENTRIES], schema=LOGIT_ENTRIES.schema)


def _values(log_id: str, first: int, block: Block, judged: Judged) -> pa.Table:
    entry = block.entry_of_value
    columns = {
        "log_id": pa.repeat(pa.scalar(log_id), len(entry)),
        "entry": entry + first,
        "checkpoint": _checkpoints(block.checkpoint, entry),
        "token_idx": block.token_idx[entry],
        "position": block.positions,
        "value": block.values,
        "flags": flag_lists(judged.flags),
    }
    return pa.table([_column(columns[one.name], one.type) for one in LOGIT_VALUES], schema=LOGIT_VALUES.schema)


def flag_lists(flags: Flags) -> pa.ListArray:
    """The names of each value's flags."""
    offsets = np.zeros(len(flags) + 1, dtype=np.int32)
    np.cumsum(np.bitwise_count(flags), out=offsets[1:])
    some = flags[flags != 0]  # most have none
    is_set = (some[:, None] >> np.arange(len(FLAGS), dtype=np.uint8)) & 1
    names = pa.array(FLAGS, pa.string()).take(pa.array(np.nonzero(is_set)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), names)


def _tops(block: Block, flags: Flags) -> pa.Array:
    """The position of each entry's largest value without a flag; null where there is none."""
    values = np.where((flags == 0) & np.isfinite(block.values), block.values, -np.inf)
    starts = block.starts[:-1]
    best = np.maximum.reduceat(values, starts)
    is_best = values == np.repeat(best, block.widths)
    where = np.where(is_best, np.arange(len(values)), len(values))
    place = np.minimum.reduceat(where, starts)
    return pa.array(block.positions[place], mask=np.isneginf(best))


def _checkpoints(names: NDArray[np.object_], entry: Whole | None = None) -> pa.Array:
    """Of entries, or of values by their entries; there are few different ones."""
    if len(set(names.tolist())) == 1:
        return pa.repeat(pa.scalar(str(names[0])), len(names) if entry is None else len(entry))
    found = pa.array(names, pa.string())
    return found if entry is None else found.take(pa.array(entry))


def _or_null(values: Real) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _column(values: object, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray) and pa.types.is_int32(kind):
        values = values.astype(np.int32)
    found = values if isinstance(values, pa.Array) else pa.array(values)
    return found if found.type == kind else found.cast(kind)
