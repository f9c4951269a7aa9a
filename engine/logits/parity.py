"""Two logs of one prompt beside each other: how far the engines agree, and where they part.

Entries meet by checkpoint and token_idx (the n-th text of one log with the n-th of the other), values by position. What
only one of them logged is counted and left out. Each figure comes for all values and without the flagged ones, under
each of the position filters that the reports advise; which filter the data supports is found, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import FileFormatError
from engine.inspection.memo import Memo
from engine.logits.blocks import Real, Whole
from engine.logits.repeats import Marks
from engine.logits.rules import load_rules
from engine.store.entries import Entry
from engine.store.store import Store

MOST_KEPT = 8
MOST_TOKENS = 100_000
"""Entries whose own agreement is told."""

# The n-th entry of a checkpoint and token in one log meets the n-th in the other. NaN is a value like others here.
_PAIRS = """
WITH numbered AS (
    SELECT log_id, entry, checkpoint, token_idx,
           row_number() OVER (PARTITION BY log_id, checkpoint, token_idx ORDER BY entry) AS turn
    FROM logit_entries
),
met AS (
    SELECT c.entry AS control_entry, t.entry AS test_entry, c.checkpoint, c.token_idx
    FROM (SELECT * FROM numbered WHERE log_id = $control) AS c
    JOIN (SELECT * FROM numbered WHERE log_id = $test) AS t USING (checkpoint, token_idx, turn)
)
SELECT met.control_entry AS entry, met.checkpoint, met.token_idx, c.position, c.value AS control, t.value AS test,
       len(c.flags) > 0 AS control_flagged, len(t.flags) > 0 AS test_flagged
FROM met
JOIN logit_values AS c ON c.log_id = $control AND c.entry = met.control_entry
JOIN logit_values AS t ON t.log_id = $test AND t.entry = met.test_entry AND t.position = c.position
ORDER BY met.control_entry, c.position
"""
_COUNTS = """
SELECT log_id, count(*) AS entries, count(DISTINCT (checkpoint, token_idx)) AS places
FROM logit_entries GROUP BY ALL
"""

FILTERS: Mapping[str, Callable[[Whole], Marks]] = {
    "all": lambda positions: positions >= 0,
    "skip 0": lambda positions: positions != 0,
    "skip 0 and 2": lambda positions: (positions != 0) & (positions != 2),
    "from 3 on": lambda positions: positions >= 3,
}
"""By name, the mildest first."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of pairs of finite values; a figure is null where there is nothing to take it of.

    Differences are test minus control. ``relative`` is the root mean square of the differences over that of the
    control; what shifts a whole row alike (``shift``) is in it, though softmax does not see it.
    """

    entries: int
    values: int
    not_finite: int  # pairs of which one or both are no finite number
    max_difference: float | None
    mean_difference: float | None  # in size
    shift: float | None  # mean of the differences, with their sign
    relative: float | None
    max_relative: float | None  # of one value, over the larger of the pair
    cosine: float | None  # mean over entries
    rank: float | None  # Spearman's, mean over entries
    top_1: float | None  # share of entries whose largest value stands at the same position


@dataclass(frozen=True, slots=True)
class Filtered:
    name: str
    with_flagged: Agreement
    without_flagged: Agreement
    flagged: int  # pairs that the filter leaves, of which one is flagged


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of both logs: where it is, and how far they agree there without flagged values."""

    checkpoint: str
    token_idx: int
    values: int
    flagged: int
    max_difference: float | None
    relative: float | None
    cosine: float | None
    has_same_top: bool | None


@dataclass(frozen=True, slots=True)
class Parity:
    control: str
    test: str
    control_name: str
    test_name: str
    entries: int  # in both
    only_control: int
    only_test: int
    filters: tuple[Filtered, ...]
    supported: str | None  # the mildest filter behind which no value is flagged; null where none is enough
    flagged_positions: tuple[int, ...]
    places: tuple[Place, ...]
    tolerance: float
    diverging: Place | None  # the first whose relative difference is larger

    def sheet(self) -> dict[str, Any]:
        return asdict(self)


_kept: Memo[Parity] = Memo(MOST_KEPT)


def compare_logs(store: Store, control: Entry, test: Entry) -> Parity:
    return _kept.of((control.key, test.key), lambda: _compare(store, control, test))


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """N pairs of values in the control's order."""

    entry: Whole
    checkpoint: NDArray[np.object_]
    token_idx: Whole
    position: Whole
    control: Real
    test: Real
    is_flagged: Marks

    def where(self, kept: Marks) -> _Pairs:
        return _Pairs(*(getattr(self, one.name)[kept] for one in fields(self)))

    def __len__(self) -> int:
        return len(self.entry)


def _compare(store: Store, control: Entry, test: Entry) -> Parity:
    if control.id == test.id:
        raise FileFormatError(f"{control.id} is given twice", "Parity takes two logs")
    pairs = _pairs(store, control, test)
    if len(pairs) == 0:
        raise FileFormatError(
            f"{control.id} and {test.id} share no checkpoint, token and position", "Log the same prompt with both"
        )
    rules = load_rules()
    tolerance = max(rules.tolerance(_precision(entry)) for entry in (control, test))
    filters = tuple(_filtered(name, pairs.where(kept(pairs.position))) for name, kept in FILTERS.items())
    supported = next((one.name for one in filters if not one.flagged and one.with_flagged.values), None)
    places = tuple(_places(pairs))
    shared = len(places)
    counts = {row["log_id"]: row["entries"] for row in _counts(store, control, test)}
    return Parity(
        control=control.id,
        test=test.id,
        control_name=_name(control),
        test_name=_name(test),
        entries=shared,
        only_control=counts.get(control.id, 0) - shared,
        only_test=counts.get(test.id, 0) - shared,
        filters=filters,
        supported=supported,
        flagged_positions=tuple(np.unique(pairs.position[pairs.is_flagged]).tolist()),
        places=places[:MOST_TOKENS],
        tolerance=tolerance,
        diverging=next((one for one in places if one.relative is not None and one.relative > tolerance), None),
    )


def _pairs(store: Store, control: Entry, test: Entry) -> _Pairs:
    found = store.table(_PAIRS, {"control": control.id, "test": test.id}, of=[control.id, test.id])
    columns = {name: found[name].to_numpy() for name in ("entry", "token_idx", "position", "control", "test")}
    flagged = [found[f"{name}_flagged"].to_numpy() for name in ("control", "test")]
    return _Pairs(
        columns["entry"].astype(np.int64),
        found["checkpoint"].to_numpy().astype(object),
        columns["token_idx"].astype(np.int64),
        columns["position"].astype(np.int64),
        columns["control"],
        columns["test"],
        np.asarray(flagged[0] | flagged[1], dtype=np.bool_),
    )


def _counts(store: Store, control: Entry, test: Entry) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.table(_COUNTS, of=[control.id, test.id]).to_pylist()
    return found


def _precision(entry: Entry) -> str | None:
    """Of the weights, else of the values as logged."""
    said = entry.row.get("precision") or entry.row.get("dtype")
    return None if said is None else str(said)


def _name(entry: Entry) -> str:
    more = [str(entry.row[key]) for key in ("model", "precision") if entry.row.get(key)]
    return f"{entry.row['engine']} ({', '.join(more)})" if more else str(entry.row["engine"])


def _filtered(name: str, pairs: _Pairs) -> Filtered:
    return Filtered(name, _agreement(pairs), _agreement(pairs.where(~pairs.is_flagged)), int(pairs.is_flagged.sum()))


def _agreement(pairs: _Pairs) -> Agreement:
    is_finite = np.isfinite(pairs.control) & np.isfinite(pairs.test)
    own = pairs.where(is_finite)
    if len(own) == 0:
        return Agreement(0, 0, int((~is_finite).sum()), *[None] * 8)
    difference = own.test - own.control
    size = np.maximum(np.abs(own.control), np.abs(own.test))
    relative = np.divide(np.abs(difference), size, out=np.zeros_like(size), where=size > 0)
    rows = _Rows(own.entry)
    cosine, rank = rows.cosine(own.control, own.test), rows.ranked(own.control, own.test)
    same_top = rows.top(own.control) == rows.top(own.test)
    return Agreement(
        entries=len(rows.starts),
        values=len(own),
        not_finite=int((~is_finite).sum()),
        max_difference=float(np.abs(difference).max()),
        mean_difference=float(np.abs(difference).mean()),
        shift=float(difference.mean()),
        relative=_relative(difference, own.control),
        max_relative=float(relative.max()),
        cosine=_mean(cosine),
        rank=_mean(rank),
        top_1=float(same_top[rows.widths > 1].mean()) if (rows.widths > 1).any() else None,
    )


def _places(pairs: _Pairs) -> list[Place]:
    """Every entry of both, in the control's order."""
    _, first, where = np.unique(pairs.entry, return_index=True, return_inverse=True)
    flagged = np.bincount(where, weights=pairs.is_flagged)
    sound = pairs.where(~pairs.is_flagged & np.isfinite(pairs.control) & np.isfinite(pairs.test))
    figures: dict[int, tuple[Any, ...]] = {}
    if len(sound):
        rows = _Rows(sound.entry)
        difference = sound.test - sound.control
        largest = np.maximum.reduceat(np.abs(difference), rows.starts)
        relative = _ratio(np.sqrt(rows.sums(difference**2)), np.sqrt(rows.sums(sound.control**2)))
        cosine, same = rows.cosine(sound.control, sound.test), rows.top(sound.control) == rows.top(sound.test)
        figures = {
            int(entry): (int(width), *map(_known, numbers), bool(top) if width > 1 else None)
            for entry, width, *numbers, top in zip(
                sound.entry[rows.starts], rows.widths, largest, relative, cosine, same, strict=True
            )
        }
    return [
        Place(
            str(pairs.checkpoint[at]),
            int(pairs.token_idx[at]),
            figures.get(int(pairs.entry[at]), (0,))[0],
            int(count),
            *figures.get(int(pairs.entry[at]), (0, None, None, None, None))[1:],
        )
        for at, count in zip(first, flagged, strict=True)
    ]


class _Rows:
    """Values that stand entry by entry, added up and ranked within each."""

    def __init__(self, entry: Whole) -> None:
        self.starts = np.flatnonzero(np.concatenate([[True], entry[1:] != entry[:-1]]))
        self.widths = np.diff(np.append(self.starts, len(entry)))
        self.row = np.repeat(np.arange(len(self.starts)), self.widths)

    def sums(self, values: Real) -> Real:
        found: Real = np.add.reduceat(values, self.starts)
        return found

    def cosine(self, one: Real, other: Real) -> Real:
        """Scaled first: huge numbers have no square."""
        scaled = []
        for values in (one, other):
            most = np.maximum.reduceat(np.abs(values), self.starts)[self.row]
            scaled.append(np.divide(values, most, out=np.zeros_like(values), where=most > 0))
        sizes = [np.sqrt(self.sums(values**2)) for values in scaled]
        return _ratio(self.sums(scaled[0] * scaled[1]), sizes[0] * sizes[1])

    def ranked(self, one: Real, other: Real) -> Real:
        """Spearman's correlation; what is equal shares its rank."""
        ranks = [self._ranks(values) for values in (one, other)]
        centred = [rank - (self.sums(rank) / self.widths)[self.row] for rank in ranks]
        sizes = [np.sqrt(self.sums(values**2)) for values in centred]
        return _ratio(self.sums(centred[0] * centred[1]), sizes[0] * sizes[1])

    def _ranks(self, values: Real) -> Real:
        order = np.lexsort((values, self.row))
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
        found: Whole = np.minimum.reduceat(where, self.starts)
        return found


def _relative(difference: Real, control: Real) -> float | None:
    most = float(np.abs(control).max(initial=0.0))
    if most == 0:
        return None
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean((difference / most) ** 2)) / np.sqrt(np.mean((control / most) ** 2)))


def _ratio(over: Real, under: Real) -> Real:
    """NaN where there is nothing to divide by."""
    found: Real = np.divide(over, under, out=np.full(len(over), np.nan), where=under > 0)
    return found


def _mean(values: Real) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
