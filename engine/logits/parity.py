"""Two logs of one prompt: how far the engines agree, and where they diverge.

Entries are matched by checkpoint, text and token_idx, values by position. What only one of them logged is counted and
left out. Each figure is of all values and without the flagged ones, under each of the position filters that the reports
advise; which filter the data supports is measured, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from engine.errors import FileFormatError
from engine.figures.words import precision_name
from engine.inspection.memo import computed_once
from engine.logits.batches import Real, Whole
from engine.logits.health_words import log_name
from engine.logits.pairs import EntryGroups, MatchedEntries, ValuePairs, is_by_number, pairs_of, ratio
from engine.logits.repeats import Marks
from engine.logits.rules import load_rules
from engine.store.entries import Entry
from engine.store.store import Store

MOST_CACHED = 8
MOST_NAME = 40
MOST_TOKENS = 100_000
"""Entries whose own agreement is listed."""

_COUNTS = "SELECT log_id, count(*) AS entries FROM logit_entries GROUP BY ALL"

FILTERS: Mapping[str, Callable[[Whole], Marks]] = {
    "all": lambda positions: positions >= 0,
    "skip 0": lambda positions: positions != 0,
    "skip 0 and 2": lambda positions: (positions != 0) & (positions != 2),
    "from 3 on": lambda positions: positions >= 3,
}
"""By name, mildest first."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of pairs of finite values; a figure is null where it cannot be computed.

    Differences are test minus control. ``relative`` is the root mean square of the differences over that of the
    control; it includes a shift of a whole row (``shift``), which does not change probabilities.
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
class FilteredAgreement:
    name: str
    with_flagged: Agreement
    without_flagged: Agreement
    flagged: int  # pairs left by the filter with a flagged value


@dataclass(frozen=True, slots=True)
class EntryAgreement:
    """One entry of both logs, and how far they agree there without flagged values."""

    checkpoint: str
    token_idx: int
    sequence: int  # the control's count of texts
    values: int
    max_difference: float | None
    relative: float | None
    cosine: float | None
    has_same_top: bool | None
    flagged: int


@dataclass(frozen=True, slots=True)
class Parity:
    control: str
    test: str
    control_name: str
    test_name: str
    by_number: bool  # texts are matched by their number alone: the logs share no names
    entries: int  # in both
    only_control: int
    only_test: int
    filters: tuple[FilteredAgreement, ...]
    supported: str | None  # the mildest filter that leaves no flagged value; null where none is enough
    flagged_positions: tuple[int, ...]
    places: tuple[EntryAgreement, ...]
    tolerance: float
    diverging: EntryAgreement | None  # the first whose relative difference is larger


_UNBOUNDED = np.errstate(over="ignore", invalid="ignore")
"""Of values near the largest that there are, sums and squares are infinite, and so are their differences."""


@computed_once(MOST_CACHED)
def compare_logs(store: Store, control: Entry, test: Entry) -> Parity:
    if control.id == test.id:
        raise FileFormatError(f"{control.id} is given twice", "Parity takes two logs")
    met, pairs = pairs_of(store, control, test)
    if len(pairs) == 0:
        raise FileFormatError(
            f"{control.id} and {test.id} share no checkpoint, token and position", "Log the same prompt with both"
        )
    names = [
        log_name(row.get("engine"), row.get("model"), precision_name(row.get("precision")), most=MOST_NAME)
        for row in (control.row, test.row)
    ]
    if names[0] == names[1]:
        names = [control.id, test.id]
    # The precision of the weights, else of the values as logged.
    precisions = (entry.row.get("precision") or entry.row.get("dtype") for entry in (control, test))
    tolerance = max(map(load_rules().tolerance, precisions))
    filters = tuple(_filtered(name, pairs.where(kept(pairs.position))) for name, kept in FILTERS.items())
    supported = next((each.name for each in filters if not each.flagged and each.with_flagged.values), None)
    places, shared, diverging = _places(met, pairs, tolerance)
    rows = store.table(_COUNTS, of=[control.id, test.id]).to_pylist()
    counts = {row["log_id"]: row["entries"] for row in rows}
    return Parity(
        control=control.id,
        test=test.id,
        control_name=names[0],
        test_name=names[1],
        by_number=is_by_number(store, control, test),
        entries=shared,
        only_control=counts.get(control.id, 0) - shared,
        only_test=counts.get(test.id, 0) - shared,
        filters=filters,
        supported=supported,
        flagged_positions=tuple(np.unique(pairs.position[pairs.is_flagged]).tolist()),
        places=places,
        tolerance=tolerance,
        diverging=diverging,
    )


def _filtered(name: str, pairs: ValuePairs) -> FilteredAgreement:
    flagged, whole = int(pairs.is_flagged.sum()), _agreement(pairs)
    return FilteredAgreement(name, whole, _agreement(pairs.where(~pairs.is_flagged)) if flagged else whole, flagged)


@_UNBOUNDED
def _agreement(pairs: ValuePairs) -> Agreement:
    is_finite = pairs.is_finite
    finite = pairs.where(is_finite)
    control, test = finite.control, finite.test
    if len(finite) == 0:
        return Agreement(0, 0, int((~is_finite).sum()), *[None] * 8)
    difference = test - control
    size = np.maximum(np.abs(control), np.abs(test))
    relative = np.divide(np.abs(difference), size, out=np.zeros_like(size), where=size > 0)
    rows = EntryGroups(finite.entry)
    cosine, rank = rows.cosine(control, test), rows.ranked(control, test)
    same_top = rows.top(control) == rows.top(test)
    return Agreement(
        entries=len(rows.starts),
        values=len(finite),
        not_finite=int((~is_finite).sum()),
        max_difference=float(np.abs(difference).max()),
        mean_difference=float(np.abs(difference).mean()),
        shift=float(difference.mean()),
        relative=_relative(difference, control),
        max_relative=float(relative.max()),
        cosine=_mean(cosine),
        rank=_mean(rank),
        top_1=float(same_top[rows.widths > 1].mean()) if (rows.widths > 1).any() else None,
    )


def _places(
    met: MatchedEntries, pairs: ValuePairs, tolerance: float
) -> tuple[tuple[EntryAgreement, ...], int, EntryAgreement | None]:
    """The first entries that share a position, in the control's order; how many there are; the first that diverges."""
    whole = EntryGroups(pairs.entry)
    entries = pairs.entry[whole.starts]
    at, flagged = np.searchsorted(met.entry, entries), np.add.reduceat(pairs.is_flagged, whole.starts, dtype=np.int64)
    figures = _figures(pairs.sound, entries)

    def agreement(row: int) -> EntryAgreement:
        values, largest, relative, cosine, is_same = (column[row].item() for column in figures)
        where = str(met.checkpoint[at[row]]), int(met.token_idx[at[row]]), int(met.sequence[at[row]])
        known = _known(largest), _known(relative), _known(cosine)
        return EntryAgreement(*where, int(values), *known, bool(is_same) if values > 1 else None, int(flagged[row]))

    diverging = np.flatnonzero(figures[2] > tolerance)
    first = agreement(int(diverging[0])) if len(diverging) else None
    return tuple(map(agreement, range(min(len(entries), MOST_TOKENS)))), len(entries), first


@_UNBOUNDED
def _figures(sound: ValuePairs, entries: Whole) -> tuple[Real, ...]:
    """By entry: values, how far they agree, whether the largest stands at one place. NaN where no value is sound."""
    found = np.full((5, len(entries)), np.nan)
    found[0] = 0
    if len(sound) == 0:
        return tuple(found)
    rows, difference = EntryGroups(sound.entry), sound.test - sound.control
    here = np.searchsorted(entries, sound.entry[rows.starts])
    found[0, here] = rows.widths
    found[1, here] = np.maximum.reduceat(np.abs(difference), rows.starts)
    found[2, here] = ratio(np.sqrt(rows.sums(difference**2)), np.sqrt(rows.sums(sound.control**2)))
    found[3, here] = rows.cosine(sound.control, sound.test)
    found[4, here] = rows.top(sound.control) == rows.top(sound.test)
    return tuple(found)


def _relative(difference: Real, control: Real) -> float | None:
    most = float(np.abs(control).max(initial=0.0))
    if most == 0:
        return None
    return float(np.sqrt(np.mean((difference / most) ** 2)) / np.sqrt(np.mean((control / most) ** 2)))


def _mean(values: Real) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
