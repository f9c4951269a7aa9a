"""How a log's values are distributed, flagged ones apart: counts in bins of a scale that holds 5 and 1e38 alike.

The scale is sign(v) log10(1 + |v|): even around zero, decades further out. Only counts leave the store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from engine.inspection.memo import Memo
from engine.logits.adding import findings_in
from engine.logits.figures import DAMAGED, asked_of, check_values
from engine.logits.rules import load_rules
from engine.store.entries import Entry
from engine.store.store import Store

Group = Literal["clean", "damaged", "purpose"]
GROUPS: tuple[Group, ...] = ("clean", "damaged", "purpose")
NON_FINITE = ("-inf", "inf", "nan")
BINS = 360
LEAST_WIDTH = 0.01
MOST_KEPT = 16

_SCALED = f"""
SELECT CASE WHEN len(flags) = 0 THEN 'clean' WHEN {DAMAGED} THEN 'damaged' ELSE 'purpose' END AS kind, value,
       sign(value) * log10(1 + abs(value)) AS x
FROM logit_values WHERE $checkpoint = '' OR checkpoint = $checkpoint
"""
_RANGE = f"SELECT min(x) AS low, max(x) AS high FROM ({_SCALED}) WHERE isfinite(value)"
_BINS = f"""
SELECT kind, floor(x / $width)::INTEGER AS bin, count(*) AS values, min(value) AS least, max(value) AS largest
FROM ({_SCALED}) WHERE isfinite(value) GROUP BY ALL ORDER BY bin, kind
"""
_OTHERS = (
    f"SELECT kind, value::VARCHAR AS value, count(*) AS values FROM ({_SCALED}) WHERE NOT isfinite(value) GROUP BY ALL"
)


@dataclass(frozen=True, slots=True)
class Bin:
    """Values of one group within two ends of the scale; ``least`` and ``largest`` are values that are there."""

    group: Group
    start: float
    values: int
    least: float
    largest: float


@dataclass(frozen=True, slots=True)
class Distribution:
    width: float  # of a bin, on the scale
    bins: tuple[Bin, ...]
    non_finite: dict[tuple[str, Group], int]  # by NON_FINITE and group

    def total(self, group: Group) -> int:
        others = sum(count for (_, own), count in self.non_finite.items() if own == group)
        return others + sum(one.values for one in self.bins if one.group == group)

    def ends(self, group: Group) -> tuple[float, float] | None:
        """The least and the largest finite value."""
        own = [one for one in self.bins if one.group == group]
        return (min(one.least for one in own), max(one.largest for one in own)) if own else None


_kept: Memo[Distribution] = Memo(MOST_KEPT)


def distribution(store: Store, entry: Entry, checkpoint: str = "") -> Distribution:
    """Of all checkpoints together, where none is named."""
    return _kept.of((*entry.key, checkpoint), lambda: _distribution(store, entry, checkpoint))


def scaled(value: float) -> float:
    return math.copysign(math.log10(1 + abs(value)), value)


def _distribution(store: Store, entry: Entry, checkpoint: str) -> Distribution:
    check_values(store, entry)
    asked = asked_of(load_rules(), findings_in(entry)) | {"checkpoint": checkpoint}
    (ends,) = _rows(store, entry, _RANGE, asked)
    width = LEAST_WIDTH if ends["low"] is None else max((ends["high"] - ends["low"]) / BINS, LEAST_WIDTH)
    rows = _rows(store, entry, _BINS, asked | {"width": width})
    bins = [Bin(row["kind"], row["bin"] * width, row["values"], row["least"], row["largest"]) for row in rows]
    others = {(row["value"], row["kind"]): row["values"] for row in _rows(store, entry, _OTHERS, asked)}
    return Distribution(width, tuple(bins), others)


def _rows(store: Store, entry: Entry, sql: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.table(sql, asked, of=[entry.id]).to_pylist()
    return found
