"""How a log's values are distributed, flagged ones apart: counts in bins of a scale that shows both 5 and 1e38.

The scale is sign(v) log10(1 + |v|): even around zero, decades further out. Only counts leave the store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from engine.inspection.memo import computed_once
from engine.logits.health import DAMAGED, check_values, damage_query
from engine.store.entries import Entry
from engine.store.store import Store

Group = Literal["clean", "damaged", "purpose"]
GROUPS: tuple[Group, ...] = ("clean", "damaged", "purpose")
NON_FINITE = ("-inf", "inf", "nan")
BINS = 360
LEAST_WIDTH = 0.01
MOST_CACHED = 16

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
        non_finite = sum(count for (_, of), count in self.non_finite.items() if of == group)
        return non_finite + sum(bin_.values for bin_ in self.bins if bin_.group == group)

    def ends(self, group: Group) -> tuple[float, float] | None:
        """The least and the largest finite value."""
        bins = [bin_ for bin_ in self.bins if bin_.group == group]
        return (min(bin_.least for bin_ in bins), max(bin_.largest for bin_ in bins)) if bins else None


def scaled(value: float) -> float:
    return math.copysign(math.log10(1 + abs(value)), value)


@computed_once(MOST_CACHED)
def distribution(store: Store, entry: Entry, checkpoint: str = "") -> Distribution:
    """Of all checkpoints together, where none is named."""
    check_values(store, entry)

    def rows(sql: str, **parameters: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = damage_query(store, entry, sql, checkpoint=checkpoint, **parameters).to_pylist()
        return found

    (ends,) = rows(_RANGE)
    width = LEAST_WIDTH if ends["low"] is None else max((ends["high"] - ends["low"]) / BINS, LEAST_WIDTH)
    bins = [
        Bin(row["kind"], row["bin"] * width, row["values"], row["least"], row["largest"])
        for row in rows(_BINS, width=width)
    ]
    return Distribution(width, tuple(bins), {(row["value"], row["kind"]): row["values"] for row in rows(_OTHERS)})
