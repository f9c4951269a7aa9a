"""What most likely damaged a log, by the evidence that its flagged values add up to, and how sure that is.

Each finding is a cause of its own with the values that it explains; a log may have several, the one with most values
first. ``sure`` means that nothing else makes such values, ``likely`` that the evidence points there, ``possible`` that
it only fits. What is in the memory of another program is not seen here: a log shows what was read from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from engine.logits.tally import Places, Tally

Cause = Literal["freed", "stale", "uninitialised", "not_written", "overflow", "masked", "padding", "unknown"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
Certainty = Literal["sure", "likely", "possible"]
CERTAINTIES: tuple[Certainty, ...] = get_args(Certainty)

TITLES: dict[Cause, str] = {
    "freed": "memory read after it was given back",
    "stale": "a buffer that was not written anew for the token",
    "uninitialised": "memory that was never set",
    "not_written": "a buffer that nothing was written to",
    "overflow": "a computation that left the range of its numbers",
    "masked": "masked on purpose",
    "padding": "rows of the vocabulary without a token",
    "unknown": "a cause that its values do not show",
}
ON_PURPOSE: frozenset[Cause] = frozenset({"masked", "padding"})
"""These are no damage."""

MOST_POSITIONS = 12
"""That are named; more are told as a range."""
NEARLY_ALL = 0.95
NARROW = 1.1
"""Largest over least of values that share their leading bits."""
HEAD_POSITIONS = 4
AGAIN = 3
"""So often the same outlier is no chance."""
A_PAIR = 2
"""Halves of one address: alone they may be something else that reads as one."""


@dataclass(frozen=True, slots=True)
class Finding:
    cause: Cause
    certainty: Certainty
    values: int
    entries: int  # at least so many
    positions: tuple[int, ...]  # the first of them
    evidence: tuple[str, ...]
    places: int  # all positions

    @property
    def where(self) -> str:
        """Its positions in words; nothing where they are a range that the evidence names."""
        if not self.positions or self.cause == "padding":
            return ""
        more = self.places - len(self.positions)
        return positions_in_words(self.positions) + (f" and {more:,} more" if more > 0 else "")

    @property
    def title(self) -> str:
        return TITLES[self.cause]

    def sheet(self) -> dict[str, Any]:
        return asdict(self) | {"title": self.title}


def findings_of(tally: Tally, length: int | None = None) -> list[Finding]:
    """Of a whole log; ``length`` is that of a whole row, where the log says it. Damage comes first."""
    padded = _padded_from(tally, length)
    found = [
        *_padding(tally, padded),
        *_masked(tally, padded),
        *_overflow(tally),
        *_not_written(tally),
        *_memory(tally, padded),
    ]
    return sorted(found, key=lambda one: (one.cause in ON_PURPOSE, -one.values, CERTAINTIES.index(one.certainty)))


# --- on purpose -----------------------------------------------------------------------------------------------------


def _padded_from(tally: Tally, length: int | None) -> int:
    """The first of the positions up to the end of a row that hold zeros or masks in nearly every entry."""
    end = len(tally.seen)
    if length is None or end < length or end == 0:
        return end
    empty = np.zeros(end)
    for kind in ("zero", "mask"):
        for position, count in _counts(tally, kind).items():
            empty[position] += count
    is_full = empty < NEARLY_ALL * np.maximum(tally.seen, 1)
    last = int(np.flatnonzero(is_full).max(initial=-1))
    return end if last < 0 else last + 1


def _padding(tally: Tally, padded: int) -> Iterator[Finding]:
    if padded >= len(tally.seen):
        return
    own = [_behind(_counts(tally, kind), padded) for kind in ("zero", "mask")]
    values = sum(one.total() for one in own)
    rows = len(tally.seen) - padded
    what = "zero" if own[0].total() >= own[1].total() else "masked"
    text = f"the last {rows:,} positions of the row, from {padded:,} on, are {what} in nearly every entry"
    yield Finding("padding", "sure" if rows > 1 else "likely", values, tally.entries, (padded,), (text,), rows)


def _masked(tally: Tally, padded: int) -> Iterator[Finding]:
    counts = _before(_counts(tally, "mask"), padded)
    if not counts:
        return
    common = tally.masks.most_common(3)
    some = ", ".join(f"{value:g} {_times(count)}" for value, count in common)
    often = [position for position, count in counts.items() if count >= NEARLY_ALL * tally.seen[position]]
    evidence = [f"what code writes to keep a token out: {some}"]
    if often:
        evidence.append(f"at {positions_in_words(often)} in nearly every entry")
    certainty: Certainty = "sure" if counts.total() > 1 else "likely"
    yield Finding("masked", certainty, counts.total(), _entries(tally, "mask"), *_at(counts, evidence))


# --- damage ---------------------------------------------------------------------------------------------------------


def _overflow(tally: Tally) -> Iterator[Finding]:
    nan, infinite = _counts(tally, "nan"), _counts(tally, "overflow")
    both = nan + infinite
    if not both:
        return
    evidence = []
    if infinite:
        evidence.append(f"+infinity {_times(infinite.total())}, which no mask is")
    if nan:
        evidence.append(f"no number (NaN) {_times(nan.total())}")
    if tally.rows_of_nan:
        evidence.append(f"{_entry_count(tally.rows_of_nan)} of nothing else: what was computed before has no number")
    is_certain = bool(tally.rows_of_nan) or bool(infinite and nan)
    entries = _entries(tally, "nan", "overflow")
    yield Finding("overflow", "likely" if is_certain else "possible", both.total(), entries, *_at(both, evidence))


def _not_written(tally: Tally) -> Iterator[Finding]:
    counts = _counts(tally, "constant")
    if not counts:
        return
    evidence = []
    if tally.rows_of_zeros:
        evidence.append(f"{_entry_count(tally.rows_of_zeros)} of zeros alone")
    if tally.rows_constant:
        evidence.append(f"{_entry_count(tally.rows_constant)} of one value over and over")
    rows = tally.rows_of_zeros + tally.rows_constant
    certainty: Certainty = "sure" if rows > 1 and tally.rows_of_zeros else "likely"
    yield Finding("not_written", certainty, counts.total(), rows, *_at(counts, evidence))


def _memory(tally: Tally, padded: int) -> Iterator[Finding]:
    """Garbage: what other uses of the memory left there. Signs of a freed buffer claim all that stands beside them."""
    parts = {kind: _before(_counts(tally, kind), padded) for kind in ("address", "denormal", "zero", "huge", "far")}
    stale = _counts(tally, "stale")
    garbage = sum(parts.values(), Counter())
    freed = _freed_evidence(tally, parts, stale)
    if freed:
        both = garbage + stale
        entries = _entries(tally, *parts, "stale")
        yield Finding("freed", _freed_certainty(tally, parts, freed), both.total(), entries, *_at(both, freed))
        return
    if stale:
        rows = tally.rows_repeated
        text = f"{stale.total():,} values are bit for bit those of an earlier token"
        more = (f"{_entry_count(rows)} from the first value to the last",) if rows else ()
        certainty: Certainty = "likely" if rows or stale.total() > AGAIN else "possible"
        yield Finding("stale", certainty, stale.total(), _entries(tally, "stale"), *_at(stale, (text, *more)))
    if garbage:
        yield _unset(tally, parts, garbage)


def _freed_evidence(tally: Tally, parts: dict[str, Counter[int]], stale: Counter[int]) -> tuple[str, ...]:
    """What only memory shows that was given back; nothing where there is none of it."""
    found = []
    if parts["address"]:
        found.append(f"{parts['address'].total():,} values are halves of addresses in memory")
    if tally.addresses:
        found.append(
            f"{_entry_count(tally.addresses)} with garbage at position 0 or 2 and zero or a denormal number behind, "
            "as the two addresses of an allocator's free list read"
        )
    again = _again(tally)
    if again and tally.repeated_outliers:
        found.append(again)
    pairs = _pairs(parts["zero"])
    if pairs and (found or stale):
        found.append(f"exact zeros side by side, at {' and '.join(pairs[:3])}")
    if found and stale:
        found.append(f"{stale.total():,} more values are bit for bit those of an earlier token")
    return tuple(found)


def _freed_certainty(tally: Tally, parts: dict[str, Counter[int]], evidence: Sequence[str]) -> Certainty:
    if parts["address"].total() > A_PAIR or (tally.addresses > 1 and len(evidence) > 1):
        return "sure"
    return "likely" if tally.addresses or len(evidence) > 1 or tally.repeated_outliers >= AGAIN else "possible"


def _unset(tally: Tally, parts: dict[str, Counter[int]], garbage: Counter[int]) -> Finding:
    """Garbage without a sign of what the memory held before."""
    evidence, out = [], parts["huge"] + parts["far"]
    positions = sorted(garbage)
    if out:
        evidence.append(f"{out.total():,} values far outside their entries' spread, {magnitudes_in_words(tally)}")
        if again := _again(tally):
            evidence.append(again)
        if _is_narrow(tally) and out.total() > 1:
            evidence.append("they share their leading bits and differ in the rest, as addresses in one heap do")
    if parts["denormal"]:
        evidence.append(f"{parts['denormal'].total():,} denormal numbers")
    if parts["zero"]:
        evidence.append(f"{parts['zero'].total():,} exact zeros")
    is_at_places = len(positions) <= max(HEAD_POSITIONS, len(tally.seen) // 10)
    if is_at_places and garbage.total() > len(positions):
        evidence.append(f"always at {positions_in_words(positions)}")
    entries = _entries(tally, *parts)
    is_random = bool(parts["huge"]) or bool(parts["denormal"])
    if not is_random and not (is_at_places and garbage.total() >= AGAIN):
        return Finding("unknown", "possible", garbage.total(), entries, *_at(garbage, evidence))
    certainty: Certainty = "likely" if is_random and garbage.total() >= AGAIN and is_at_places else "possible"
    return Finding("uninitialised", certainty, garbage.total(), entries, *_at(garbage, evidence))


def _again(tally: Tally) -> str:
    """What is said of the commonest outlier, where it comes again."""
    ((value, count),) = tally.outliers.most_common(1) or [(0.0, 0)]
    return f"the same impossible value again and again: {value:g} {_times(count)}" if count >= AGAIN else ""


def _is_narrow(tally: Tally) -> bool:
    low, high = tally.least_outlier, tally.most_outlier
    return low is not None and high is not None and low < high < NARROW * low


# --- in words and counts --------------------------------------------------------------------------------------------


def positions_in_words(positions: Iterable[int]) -> str:
    """``position 0``, ``positions 0, 2 and 8``, ``positions 100 to 180``."""
    known = sorted(positions)
    if len(known) == 1:
        return f"position {known[0]:,}"
    if len(known) > MOST_POSITIONS or (len(known) > 3 and known[-1] - known[0] == len(known) - 1):
        is_whole = known[-1] - known[0] == len(known) - 1
        return f"positions {known[0]:,} to {known[-1]:,}" + ("" if is_whole else f" ({len(known):,} of them)")
    return f"positions {', '.join(f'{one:,}' for one in known[:-1])} and {known[-1]:,}"


def magnitudes_in_words(tally: Tally) -> str:
    """Of the outliers that are no masks."""
    low, high = tally.least_outlier, tally.most_outlier
    if low is None or high is None:
        return "of no size that is known"
    return f"{_size(low)} in size" if low == high else f"{_size(low)} to {_size(high)} in size"


def _size(value: float) -> str:
    return f"{value:,.0f}" if value < 1e6 else f"{value:.2e}".replace("e+", "e")


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _entry_count(count: int) -> str:
    return "one entry" if count == 1 else f"{count:,} entries"


def _counts(tally: Tally, kind: str) -> Counter[int]:
    return tally.kinds.get(kind, Places()).counts


def _entries(tally: Tally, *kinds: str) -> int:
    """At least so many: an entry may have values of several kinds."""
    return max((tally.kinds[kind].entries for kind in kinds if kind in tally.kinds), default=0)


def _before(counts: Counter[int], end: int) -> Counter[int]:
    return Counter({position: count for position, count in counts.items() if position < end})


def _behind(counts: Counter[int], start: int) -> Counter[int]:
    return Counter({position: count for position, count in counts.items() if position >= start})


def _at(counts: Counter[int], evidence: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...], int]:
    """A finding's first positions, its evidence, and how many positions there are."""
    return tuple(sorted(counts)[:MOST_POSITIONS]), tuple(evidence), len(counts)


def _pairs(zeros: Counter[int]) -> list[str]:
    return [f"{position}-{position + 1}" for position in sorted(zeros) if position % 2 == 0 and position + 1 in zeros]
