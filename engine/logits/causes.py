"""What most likely damaged a log, by the evidence of its flagged values, and how certain that is.

Each finding is a cause with the values that it explains; a log may have several, the one with most values first.
``sure`` (shown as certain) means that no other cause fits the evidence, ``likely`` that the evidence points there,
``possible`` that it only fits. What freed and unwritten memory can both make is said to be so, with what would tell
them apart. The memory of the engine itself is not known here: a log has what was read from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from engine.figures.words import listed, significant
from engine.logits.tally import DamageTally

Cause = Literal["freed", "stale", "uninitialised", "not_written", "overflow", "masked", "padding", "unknown"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
Certainty = Literal["sure", "likely", "possible"]
CERTAINTIES: tuple[Certainty, ...] = get_args(Certainty)

TITLES: dict[Cause, str] = {
    "freed": "use after free",
    "stale": "stale buffer, not rewritten for the token",
    "uninitialised": "uninitialised memory",
    "not_written": "buffer never written",
    "overflow": "numeric overflow",
    "masked": "masked on purpose",
    "padding": "vocabulary padding, rows without a token",
    "unknown": "unknown cause",
}
CERTAINTY_LABELS: Mapping[str, str] = {"sure": "certain", "likely": "likely", "possible": "possible"}
"""What is shown; the words of ``Certainty`` are those of stored logs."""
ON_PURPOSE: frozenset[Cause] = frozenset({"masked", "padding"})
"""Not damage."""

MOST_POSITIONS = 12
"""More positions are written as a range."""
NEARLY_ALL = 0.95
NARROW = 1.1
"""Ratio of largest to least for values that share their leading bits."""
HEAD_POSITIONS = 4
AGAIN = 3
"""The same outlier so often is not chance."""
MOSTLY = 0.5
"""Of all values; where more is garbage, nothing shows that the buffer was ever written."""
EITHER = (
    "memory that was freed and memory that was never written both look like this: log a copy taken at the step. If it "
    "is right, the buffer was freed later; if it is wrong too, it was not written, as valgrind's memcheck would say"
)
A_PAIR = 2
"""Halves of one address; a single pair may be a coincidence."""


@dataclass(frozen=True, slots=True)
class LogFinding:
    cause: Cause
    certainty: Certainty
    values: int
    entries: int  # at least so many
    positions: tuple[int, ...]  # the first of them
    evidence: tuple[str, ...]
    places: int  # all positions

    @property
    def where(self) -> str:
        """Its positions in words; empty where the evidence names them as a range."""
        if not self.positions or self.cause == "padding":
            return ""
        more = self.places - len(self.positions)
        return positions_in_words(self.positions) + (f" and {more:,} more" if more > 0 else "")

    @property
    def title(self) -> str:
        return TITLES[self.cause]

    def sheet(self) -> dict[str, Any]:
        return asdict(self) | {"title": self.title}


def findings_of(tally: DamageTally, length: int | None = None) -> list[LogFinding]:
    """Of a whole log, damage first; ``length`` is that of a whole row, where the log says it."""
    padded = _padded_from(tally, length)
    on_purpose = (*_padding(tally, padded), *_masked(tally, padded))
    findings = (*on_purpose, *_overflow(tally), *_not_written(tally), *_memory(tally, padded))
    return sorted(
        findings, key=lambda item: (item.cause in ON_PURPOSE, -item.values, CERTAINTIES.index(item.certainty))
    )


# --- on purpose -----------------------------------------------------------------------------------------------------


def _padded_from(tally: DamageTally, length: int | None) -> int:
    """The first of the positions up to the end of a row that hold zeros or masks in nearly every entry."""
    end = len(tally.seen)
    if length is None or end < length or end == 0:
        return end
    empty = np.zeros(end)
    for kind in ("zero", "mask"):
        for position, count in tally.kinds[kind].counts.items():
            empty[position] += count
    is_full = empty < NEARLY_ALL * np.maximum(tally.seen, 1)
    last = int(np.flatnonzero(is_full).max(initial=-1))
    return end if last < 0 else last + 1


def _padding(tally: DamageTally, padded: int) -> Iterator[LogFinding]:
    if padded >= len(tally.seen):
        return
    zeros, masks = (
        sum(count for position, count in tally.kinds[kind].counts.items() if position >= padded)
        for kind in ("zero", "mask")
    )
    rows = len(tally.seen) - padded
    what = "zero" if zeros >= masks else "masked"
    text = f"the last {rows:,} positions of the row, from {padded:,} on, are {what} in nearly every entry"
    yield LogFinding(
        "padding", "sure" if rows > 1 else "likely", zeros + masks, tally.entries, (padded,), (text,), rows
    )


def _masked(tally: DamageTally, padded: int) -> Iterator[LogFinding]:
    counts = _before(tally.kinds["mask"].counts, padded)
    if not counts:
        return
    some = ", ".join(f"{significant(value)} {_times(count)}" for value, count in tally.masks.most_common(3))
    often = [position for position, count in counts.items() if count >= NEARLY_ALL * tally.seen[position]]
    evidence = [f"values that code writes to exclude a token: {some}"]
    if often:
        evidence.append(f"at {positions_in_words(often)} in nearly every entry")
    certainty: Certainty = "sure" if counts.total() > 1 else "likely"
    yield _finding("masked", certainty, counts, _entries(tally, "mask"), evidence)


# --- damage ---------------------------------------------------------------------------------------------------------


def _overflow(tally: DamageTally) -> Iterator[LogFinding]:
    nan, infinite = tally.kinds["nan"].counts, tally.kinds["overflow"].counts
    both = nan + infinite
    if not both:
        return
    evidence = []
    if infinite:
        evidence.append(f"+infinity {_times(infinite.total())}, which is no mask")
    if nan:
        evidence.append(f"NaN {_times(nan.total())}")
    if tally.rows_of_nan:
        evidence.append(f"{_entry_count(tally.rows_of_nan)} of NaN alone: an earlier computation failed")
    certainty: Certainty = "likely" if tally.rows_of_nan or (infinite and nan) else "possible"
    yield _finding("overflow", certainty, both, _entries(tally, "nan", "overflow"), evidence)


def _not_written(tally: DamageTally) -> Iterator[LogFinding]:
    counts = tally.kinds["constant"].counts
    if not counts:
        return
    evidence = []
    if tally.rows_of_zeros:
        evidence.append(f"{_entry_count(tally.rows_of_zeros)} of zeros only")
    if tally.rows_constant:
        evidence.append(f"{_entry_count(tally.rows_constant)} of one repeated value")
    rows = tally.rows_of_zeros + tally.rows_constant
    certainty: Certainty = "sure" if rows > 1 and tally.rows_of_zeros else "likely"
    yield _finding("not_written", certainty, counts, rows, evidence)


def _memory(tally: DamageTally, padded: int) -> Iterator[LogFinding]:
    """Garbage left by other uses of the memory. With signs of a freed buffer, all garbage counts as that."""
    parts = {kind: _before(tally.kinds[kind].counts, padded) for kind in ("address", "denormal", "zero", "huge", "far")}
    stale = tally.kinds["stale"].counts
    garbage = sum(parts.values(), Counter())
    freed = _freed_evidence(tally, parts, stale)
    if freed:
        certainty: Certainty = "possible"
        is_written = (garbage + stale).total() < MOSTLY * int(tally.seen.sum())
        if is_written and (parts["address"].total() > A_PAIR or (tally.addresses > 1 and len(freed) > 1)):
            certainty = "sure"
        elif tally.addresses or len(freed) > 1 or tally.repeated_outliers >= AGAIN:
            certainty = "likely"
        if certainty != "sure":
            freed.append(EITHER)
        yield _finding("freed", certainty, garbage + stale, _entries(tally, *parts, "stale"), freed)
        return
    if stale:
        rows = tally.rows_repeated
        evidence = [f"{stale.total():,} values equal those of an earlier token bit for bit"]
        if rows:
            evidence.append(f"{_entry_count(rows)} as a whole")
        certainty = "likely" if rows or stale.total() > AGAIN else "possible"
        yield _finding("stale", certainty, stale, _entries(tally, "stale"), evidence)
    if garbage:
        yield _unset(tally, parts, garbage)


def _freed_evidence(tally: DamageTally, parts: dict[str, Counter[int]], stale: Counter[int]) -> list[str]:
    """Signs that only freed memory shows; empty where there are none."""
    evidence = []
    if parts["address"]:
        evidence.append(f"{parts['address'].total():,} values are halves of memory addresses")
    if tally.addresses:
        evidence.append(
            f"{_entry_count(tally.addresses)} with garbage at position 0 or 2 followed by zero or a denormal, "
            "like the two pointers of an allocator's free list"
        )
    again = _again(tally)
    if again and tally.repeated_outliers:
        evidence.append(again)
    zeros = parts["zero"]
    pairs = [f"{place}-{place + 1}" for place in sorted(zeros) if place % 2 == 0 and place + 1 in zeros]
    if pairs and (evidence or stale):
        evidence.append(f"adjacent exact zeros at {' and '.join(pairs[:3])}")
    if evidence and stale:
        evidence.append(f"{stale.total():,} more values equal those of an earlier token bit for bit")
    return evidence


def _unset(tally: DamageTally, parts: dict[str, Counter[int]], garbage: Counter[int]) -> LogFinding:
    """Garbage without a sign of what the memory held."""
    evidence, out = [], parts["huge"] + parts["far"]
    positions = sorted(garbage)
    if out:
        evidence.append(f"{out.total():,} values far outside the spread of their entries, {magnitudes_in_words(tally)}")
        if again := _again(tally):
            evidence.append(again)
        low, high = tally.least_outlier, tally.most_outlier
        if out.total() > 1 and low is not None and high is not None and low < high < NARROW * low:
            evidence.append("same leading bits, different rest: like addresses in one heap")
    if parts["denormal"]:
        evidence.append(f"{parts['denormal'].total():,} denormals")
    if parts["zero"]:
        evidence.append(f"{parts['zero'].total():,} exact zeros")
    is_at_places = len(positions) <= max(HEAD_POSITIONS, len(tally.seen) // 10)
    if is_at_places and garbage.total() > len(positions):
        evidence.append(f"always at {positions_in_words(positions)}")
    entries = _entries(tally, *parts)
    is_random, is_repeated = bool(parts["huge"] or parts["denormal"]), is_at_places and garbage.total() >= AGAIN
    if not is_random and not is_repeated:
        return _finding("unknown", "possible", garbage, entries, evidence)
    certainty: Certainty = "likely" if is_random and is_repeated else "possible"
    return _finding("uninitialised", certainty, garbage, entries, [*evidence, EITHER])


def _again(tally: DamageTally) -> str:
    """The most common outlier, where it repeats."""
    ((value, count),) = tally.outliers.most_common(1) or [(0.0, 0)]
    return f"the same impossible value repeated: {significant(value)} {_times(count)}" if count >= AGAIN else ""


# --- in words and counts --------------------------------------------------------------------------------------------


def positions_in_words(positions: Iterable[int]) -> str:
    """``position 0``, ``positions 0, 2 and 8``, ``positions 100 to 180``."""
    known = sorted(positions)
    if len(known) == 1:
        return f"position {known[0]:,}"
    if len(known) > MOST_POSITIONS or (len(known) > 3 and known[-1] - known[0] == len(known) - 1):
        is_whole = known[-1] - known[0] == len(known) - 1
        return f"positions {known[0]:,} to {known[-1]:,}" + ("" if is_whole else f" ({len(known):,} of them)")
    return f"positions {listed([f'{position:,}' for position in known])}"


def magnitudes_in_words(tally: DamageTally) -> str:
    """Of the outliers that are no masks."""
    low, high = tally.least_outlier, tally.most_outlier
    if low is None or high is None:
        return "of unknown magnitude"
    sizes = [f"{value:,.0f}" if value < 1e6 else f"{value:.2e}".replace("e+", "e") for value in (low, high)]
    return f"magnitude {' to '.join(dict.fromkeys(sizes))}"


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _entry_count(count: int) -> str:
    return "one entry" if count == 1 else f"{count:,} entries"


def _entries(tally: DamageTally, *kinds: str) -> int:
    """A lower bound: an entry may have values of several kinds."""
    return max(tally.kinds[kind].entries for kind in kinds)


def _before(counts: Counter[int], end: int) -> Counter[int]:
    return Counter({position: count for position, count in counts.items() if position < end})


def _finding(
    cause: Cause, certainty: Certainty, counts: Counter[int], entries: int, evidence: Sequence[str]
) -> LogFinding:
    """``counts`` are the values that it explains, by position."""
    first = tuple(sorted(counts)[:MOST_POSITIONS])
    return LogFinding(cause, certainty, counts.total(), entries, first, tuple(evidence), len(counts))
