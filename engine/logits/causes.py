"""What most likely damaged a log, by the counts of its flagged values, and how certain that is.

Each finding is a cause with the values that it explains; a log may have several, the one with most values first.
``sure`` (shown as certain) means that no other cause fits the counts, ``likely`` that they point there, ``possible``
that they only fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from engine.figures.words import listed, significant
from engine.logits.entries import EntryBatch
from engine.logits.rules import Flags, Marks, Rules, Whole, has

Certainty = Literal["sure", "likely", "possible"]
CERTAINTY_LABELS: dict[str, str] = {"sure": "certain", "likely": "likely", "possible": "possible"}
RULES = {
    # cause: its title; what it means and what tells it apart. `CAUSES` has the conditions, in this order.
    "padding": ("vocabulary padding, rows without a token", "The row's last positions have no token; not damage."),
    "masked": ("masked on purpose", "Values that code writes to exclude a token; not damage."),
    "overflow": ("numeric overflow", "NaN or +infinity, which no mask writes: an earlier computation overflowed."),
    "not_written": ("buffer never written", "Whole entries of zeros or of one value: nothing was computed into them."),
    "freed": (
        "use after free",
        "The buffer was freed before it was read and holds an allocator's addresses or another use's values; never "
        "written memory can look the same, but there a copy logged at the step is wrong too.",
    ),
    "stale": (
        "stale buffer, not rewritten for the token",
        "The buffer holds values of an earlier token bit for bit: not rewritten, or read too early; an "
        "uninitialised buffer can look the same.",
    ),
    "uninitialised": (
        "uninitialised memory",
        "Impossible values without a pattern, as memory has that was never written, or freed; a copy logged at the "
        "step is wrong too only where it was never written.",
    ),
    "unknown": ("unknown cause", "Values that cannot be right, too few to tell why."),
}
TITLES = {cause: title for cause, (title, _) in RULES.items()}
ON_PURPOSE = frozenset({"masked", "padding"})
KINDS = {
    # What a flagged value is, the first that fits.
    "blank": "zeros in entries of zeros alone",
    "constant": "values of entries of one value",
    "mask": "mask values",
    "nan": "NaN",
    "overflow": "+infinity",
    "address": "halves of memory addresses",
    "denormal": "denormals",
    "zero": "exact zeros",
    "huge": "huge values",
    "far": "values far outside their entry's spread",
    "stale": "values of an earlier token",
}
MEMORY = ("address", "denormal", "zero", "huge", "far")  # garbage left by other uses of the memory
MOST_POSITIONS = 12  # more are written as a range
NEARLY_ALL, MOSTLY = 0.95, 0.5  # of the entries; of all values: beyond, nothing shows that the buffer was ever written
HEAD = 4  # positions at the start of a row, where an allocator keeps two addresses
HUGE, AGAIN = 1e10, 3  # the same outlier so often is not chance
A_PAIR = 2  # halves of one address; a single pair may be a coincidence
MOST_VALUES = 4_096  # different values that are counted; the most common are kept


class DamageTally:
    """Sums over a log's batches: figures of its row, and counts of what its flagged values are."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.sums = Counter[str]()
        self.ends: dict[str, float] = {}
        self.at = np.zeros((len(KINDS) + 1, 0), dtype=np.int64)  # [kinds and all values, positions]
        self.of = np.zeros(len(KINDS) + 1, dtype=np.int64)  # entries with a value of a kind
        self.outliers, self.masks = Counter[float](), Counter[float]()
        self.repeated_outliers = 0

    def add(self, batch: EntryBatch, flags: Flags) -> Marks:
        """[E] which entries are garbage by the report's rule."""
        is_huge = np.isfinite(batch.values) & (np.abs(batch.values) > self.rules.rules["report-004"]["above"])
        is_garbage: Marks = np.logical_or.reduceat(is_huge, batch.starts[:-1])
        where, count = np.flatnonzero(flags), len(batch.lines)
        values = batch.values[where]
        codes = flags[where]
        entries = batch.entry[where]
        self.sums.update(entries=count, values_logged=len(flags), garbage_entries=int(is_garbage.sum()))
        self.sums.update(flagged_values=len(where), flagged_entries=len(np.unique(entries)))
        finite, tokens = batch.values[np.isfinite(batch.values)], batch.column("token_idx")
        for low, high, numbers in (("least", "largest", finite), ("first_token", "last_token", tokens)):
            if len(numbers):
                self.ends[low] = min(self.ends.get(low, np.inf), numbers.min().item())
                self.ends[high] = max(self.ends.get(high, -np.inf), numbers.max().item())
        is_constant = has(codes, "constant")
        is_out = has(codes, "outlier")
        is_repeated = has(codes, "repeated")
        tests = (
            is_constant & (values == 0),
            is_constant,
            self.rules.is_mask(values),
            np.isnan(values),
            np.isposinf(values),
            has(codes, "pointer"),
            has(codes, "denormal"),
            has(codes, "zero"),
            is_out & (np.abs(values) >= HUGE),
            is_out,
            is_repeated,
        )
        kind = np.select(tests, range(len(KINDS)), len(KINDS))
        self.of += np.bincount(np.unique(kind * count + entries) // count, minlength=len(self.of))
        wide = max(self.at.shape[1], batch.positions.max() + 1)
        kinds = np.full(len(flags), len(KINDS))
        kinds[where] = kind
        at = np.bincount(kinds * wide + batch.positions, minlength=len(self.at) * wide).reshape(-1, wide)
        at[-1] = at.sum(axis=0)
        at[:, : self.at.shape[1]] += self.at
        self.at = at
        named = np.array([*KINDS, ""])[kind]
        is_out = np.isin(named, ("huge", "far"))
        self.masks.update(values[named == "mask"].tolist())
        self.outliers.update(values[is_out].tolist())
        if len(self.outliers) > MOST_VALUES:
            self.outliers = Counter(dict(self.outliers.most_common(MOST_VALUES // 2)))
        self.repeated_outliers += int((is_out & is_repeated).sum())
        return is_garbage


@dataclass(frozen=True, slots=True)
class Damage:
    """What a whole log's flagged values are, apart from the padding of its rows."""

    at: Mapping[str, Whole]  # by kind: [positions]
    values: Mapping[str, int]
    entries: Mapping[str, int]
    seen: Whole  # [positions], all values
    padded: int  # where the padding begins
    masks: str
    again: str  # the most common outlier, if it occurs too often to be chance
    repeated: int

    @property
    def garbage(self) -> Whole:
        """[positions]"""
        return sum_of(self.at, MEMORY)

    @property
    def heads(self) -> int:
        """Lower halves of an address at positions 0 or 2, and upper ones, denormals, behind them, which many logs
        print as zeros."""
        low, high = sum_of(self.at, ("address", "huge", "far")), sum_of(self.at, ("address", "denormal", "zero"))
        return int(np.minimum(low[:-1], high[1:])[:HEAD:2].max(initial=0))

    @property
    def signs(self) -> list[bool]:
        """Of a freed buffer; with one of the first three all garbage counts as that."""
        pairs = self.at["zero"][: len(self.seen) // 2 * 2].reshape(-1, 2)
        return [
            self.values["address"] > 0,
            self.heads > 0,
            bool(self.again) and self.repeated > 0,
            bool((pairs > 0).all(axis=1).any()),
            self.values["stale"] > 0,
        ]

    @property
    def is_freed(self) -> bool:
        return any(self.signs[:3])

    @property
    def is_random(self) -> bool:
        return self.values["huge"] + self.values["denormal"] > 0

    @property
    def is_local(self) -> bool:
        places = np.count_nonzero(self.garbage)
        return bool(places <= max(HEAD, len(self.seen) // 10) and self.garbage.sum() >= AGAIN)

    @property
    def is_left(self) -> bool:
        """There is garbage that no freed buffer explains."""
        return bool(self.garbage.any()) and not self.is_freed


def damage_of(tally: DamageTally, length: int) -> Damage:
    seen, end = tally.at[-1], len(tally.at[-1])
    at = dict(zip(KINDS, tally.at.copy(), strict=False))
    # Padding: positions up to the end of a row that hold zeros or masks in nearly every entry.
    empty = at["zero"] + at["mask"]
    last = int(np.flatnonzero(empty < NEARLY_ALL * np.maximum(seen, 1)).max(initial=-1))
    padded = last + 1 if last >= 0 and end >= length > 0 else end
    for kind in (*MEMORY, "mask"):
        at[kind][padded:] = 0
    at["padding"] = np.where(np.arange(end) < padded, 0, empty)
    outlier, times = next(iter(tally.outliers.most_common(1)), (0.0, 0))
    return Damage(
        at=at,
        values={kind: int(counts.sum()) for kind, counts in at.items()},
        entries=dict(zip(KINDS, tally.of.tolist(), strict=False)) | {"padding": tally.sums["entries"]},
        seen=seen,
        padded=padded,
        masks="such as " + ", ".join(significant(value) for value, _ in tally.masks.most_common(3)),
        again=f"{significant(outlier)} occurs {times:,} times" if times >= AGAIN else "",
        repeated=tally.repeated_outliers,
    )


def sum_of(at: Mapping[str, Whole], kinds: Iterable[str]) -> Whole:
    """[positions]"""
    total: Whole = np.sum([at[kind] for kind in kinds], axis=0)
    return total


# How certain each cause is; None where it does not fit.


def _padding(damage: Damage) -> Certainty | None:
    positions = len(damage.seen) - damage.padded
    return _sure_or_likely(positions, positions > 1)


def _masked(damage: Damage) -> Certainty | None:
    return _sure_or_likely(damage.values["mask"], damage.values["mask"] > 1)


def _not_written(damage: Damage) -> Certainty | None:
    entries = damage.entries["blank"] + damage.entries["constant"]
    return _sure_or_likely(entries, damage.values["blank"] > 0 and entries > 1)


def _sure_or_likely(count: int, is_sure: bool) -> Certainty | None:
    if not count:
        return None
    return "sure" if is_sure else "likely"


def _overflow(damage: Damage) -> Certainty | None:
    nans, infinities = damage.values["nan"], damage.values["overflow"]
    if not nans + infinities:
        return None
    is_everywhere = bool(damage.at["nan"][damage.seen > 0].all())
    return "likely" if nans * infinities or is_everywhere else "possible"


def _freed(damage: Damage) -> Certainty | None:
    if not damage.is_freed:
        return None
    signs = sum(damage.signs)
    is_written = damage.garbage.sum() + damage.values["stale"] < MOSTLY * damage.seen.sum()
    if is_written and (damage.values["address"] > A_PAIR or (damage.heads > 1 and signs > 1)):
        return "sure"
    return "likely" if damage.heads or signs > 1 or damage.repeated >= AGAIN else "possible"


def _stale(damage: Damage) -> Certainty | None:
    values = damage.values["stale"]
    if not values or damage.is_freed:
        return None
    return "likely" if values > AGAIN else "possible"


def _uninitialised(damage: Damage) -> Certainty | None:
    if not damage.is_left or not (damage.is_random or damage.is_local):
        return None
    return "likely" if damage.is_random and damage.is_local else "possible"


def _unknown(damage: Damage) -> Certainty | None:
    return "possible" if damage.is_left and not (damage.is_random or damage.is_local) else None


CAUSES: dict[str, tuple[tuple[str, ...], Callable[[Damage], Certainty | None]]] = {
    # cause: kinds of its values; its condition
    "padding": (("padding",), _padding),
    "masked": (("mask",), _masked),
    "overflow": (("overflow", "nan"), _overflow),
    "not_written": (("blank", "constant"), _not_written),
    "freed": ((*MEMORY, "stale"), _freed),
    "stale": (("stale",), _stale),
    "uninitialised": (MEMORY, _uninitialised),
    "unknown": (MEMORY, _unknown),
}


def findings_of(tally: DamageTally, length: int = 0) -> list[dict[str, Any]]:
    """Of a whole log, damage first; ``length`` is that of a whole row, 0 where the log does not say it.

    ``entries`` has at least so many, ``positions`` the first of ``places``.
    """
    damage = damage_of(tally, length)
    certainties = {cause: fits(damage) for cause, (_, fits) in CAUSES.items()}
    findings = [finding_of(damage, cause, certainty) for cause, certainty in certainties.items() if certainty]
    order = [*CERTAINTY_LABELS].index
    return sorted(findings, key=lambda row: (row["cause"] in ON_PURPOSE, -row["values"], order(row["certainty"])))


def finding_of(damage: Damage, cause: str, certainty: Certainty) -> dict[str, Any]:
    kinds = [kind for kind in CAUSES[cause][0] if damage.values[kind]]
    entries = [damage.entries[kind] for kind in kinds]
    positions = np.flatnonzero(sum_of(damage.at, kinds))
    evidence = [listed([f"{damage.values[kind]:,} {KINDS[kind]}" for kind in kinds if kind in KINDS])]
    if cause == "padding":
        evidence = [f"the last {len(damage.seen) - damage.padded:,} positions of the row, from {damage.padded:,} on"]
    elif cause == "masked":
        evidence.append(damage.masks)
    elif damage.again and cause in ("freed", "uninitialised", "unknown"):
        evidence.append(damage.again)
    return {
        "cause": cause,
        "certainty": certainty,
        "values": sum(damage.values[kind] for kind in kinds),
        "entries": sum(entries) if cause == "not_written" else max(entries),  # one entry may have several kinds
        "positions": positions[: 1 if cause == "padding" else MOST_POSITIONS].tolist(),
        "evidence": evidence,
        "places": len(positions),
        "title": TITLES[cause],
    }


def cause_words(row: Mapping[str, Any]) -> str:
    """The likeliest cause in a log's row, which may say anything."""
    if row.get("cause") is None:
        return "nothing flagged" if row.get("flagged_values") == 0 else ""
    cause, certainty = str(row["cause"]), str(row.get("certainty"))
    return f"{TITLES.get(cause, cause)} ({CERTAINTY_LABELS.get(certainty, certainty)})"


def positions_in_words(positions: Iterable[int]) -> str:
    """``position 0``, ``positions 0, 2 and 8``, ``positions 100 to 180``."""
    ordered = sorted(positions)
    if len(ordered) == 1:
        return f"position {ordered[0]:,}"
    is_whole = ordered[-1] - ordered[0] == len(ordered) - 1
    if len(ordered) > MOST_POSITIONS or (len(ordered) > 3 and is_whole):
        return f"positions {ordered[0]:,} to {ordered[-1]:,}" + ("" if is_whole else f" ({len(ordered):,} of them)")
    return f"positions {listed([f'{position:,}' for position in ordered])}"
