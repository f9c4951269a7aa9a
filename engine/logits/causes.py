"""What most likely damaged a log, by the counts of its flagged values, and how certain that is.

Each finding is a cause with the values that it explains; a log may have several, the one with most values first.
``sure`` (shown as certain) means that no other cause fits the counts, ``likely`` that they point there, ``possible``
that they only fit. The memory of the engine itself is not known here: a log has what was read from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from engine.figures.words import listed, significant
from engine.logits.entries import EntryBatch
from engine.logits.rules import Flags, Marks, Rules, Whole, has

Cause = Literal["freed", "stale", "uninitialised", "not_written", "overflow", "masked", "padding", "unknown"]
Certainty = Literal["sure", "likely", "possible"]
CERTAINTIES: tuple[Certainty, ...] = get_args(Certainty)
RULES: Mapping[str, tuple[str, str]] = {
    # cause: its title; what it means and what tells it apart, in a sentence
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
    "not_written": ("buffer never written", "Whole entries of zeros or of one value: nothing was computed into them."),
    "overflow": ("numeric overflow", "NaN or +infinity, which no mask writes: an earlier computation overflowed."),
    "masked": ("masked on purpose", "Values that code writes to exclude a token; not damage."),
    "padding": ("vocabulary padding, rows without a token", "The row's last positions have no token; not damage."),
    "unknown": ("unknown cause", "Values that cannot be right, too few to tell why."),
}
TITLES = {cause: title for cause, (title, _) in RULES.items()}
CERTAINTY_LABELS: Mapping[str, str] = {"sure": "certain", "likely": "likely", "possible": "possible"}
ON_PURPOSE: frozenset[str] = frozenset({"masked", "padding"})
KINDS = {
    # What a flagged value is, the first that fits.
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
MOST_POSITIONS = 12  # more are written as a range
NEARLY_ALL, MOSTLY = 0.95, 0.5  # of the entries; of all values: beyond, nothing shows that the buffer was ever written
HEAD = 4  # positions at the start of a row, where an allocator keeps two addresses
HUGE, AGAIN = 1e10, 3  # the same outlier so often is not chance
A_PAIR = 2  # halves of one address; a single pair may be a coincidence
MOST_VALUES = 4_096  # different values that are counted; the most common are kept


@dataclass(frozen=True, slots=True)
class LogFinding:
    cause: Cause
    certainty: Certainty
    values: int
    entries: int  # at least so many
    positions: tuple[int, ...]  # the first of them
    evidence: tuple[str, ...]
    places: int  # all positions
    title: str


class DamageTally:
    """Sums over a log's batches: figures of its row, and counts of what its flagged values are."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.sums = Counter[str]()
        self.ends: dict[str, float] = {}
        self.seen: Whole = np.zeros(0, dtype=np.int64)  # values logged, by position
        self.at: defaultdict[str, Counter[int]] = defaultdict(Counter)  # by kind and position
        self.of = Counter[str]()  # entries with a value of a kind
        self.rows = Counter[str]()  # entries that are damaged as a whole, or begin with addresses
        self.outliers, self.masks = Counter[float](), Counter[float]()
        self.repeated_outliers = 0

    def add(self, batch: EntryBatch, flags: Flags, is_garbage: Marks) -> None:
        entry, where = batch.entry, np.flatnonzero(flags)
        self.sums.update(entries=len(batch.lines), values_logged=len(flags), garbage_entries=int(is_garbage.sum()))
        self.sums.update(flagged_values=len(where), flagged_entries=len(np.unique(entry[where])))
        finite = batch.values[np.isfinite(batch.values)]
        for low, high, known in (
            ("least", "largest", finite),
            ("first_token", "last_token", batch.column("token_idx")),
        ):
            if len(known):
                self.ends[low] = min(self.ends.get(low, np.inf), known.min().item())
                self.ends[high] = max(self.ends.get(high, -np.inf), known.max().item())
        seen = np.bincount(batch.positions, minlength=len(self.seen))
        seen[: len(self.seen)] += self.seen
        self.seen = seen
        values, positions, codes, entries = batch.values[where], batch.positions[where], flags[where], entry[where]
        is_mask, is_out = self.rules.is_mask(values), has(codes, "outlier") | has(codes, "pointer")
        tests = (has(codes, "constant"), is_mask, np.isnan(values), np.isposinf(values), has(codes, "pointer"),
                 has(codes, "denormal"), has(codes, "zero"), is_out & (np.abs(values) >= HUGE), is_out,
                 has(codes, "repeated"))  # fmt: skip
        kinds, left = {}, np.ones(len(values), dtype=np.bool_)
        for kind, test in zip(KINDS, tests, strict=True):
            kinds[kind], left = left & test, left & ~test
            self.at[kind].update(positions[kinds[kind]].tolist())
            self.of[kind] += len(np.unique(entries[kinds[kind]]))
        is_out = kinds["huge"] | kinds["far"]
        for counter, own in ((self.masks, kinds["mask"]), (self.outliers, is_out)):
            counter.update(values[own].tolist())
            if len(counter) > MOST_VALUES:
                for value, _ in counter.most_common()[MOST_VALUES // 2 :]:
                    del counter[value]
        self.repeated_outliers += int((is_out & has(codes, "repeated")).sum())
        widths, constant = np.diff(batch.starts), has(codes, "constant")
        still = (has(codes, "repeated") | has(codes, "zero") | np.isneginf(values)) & ~constant
        for name, own in (("repeated", still), ("nan", np.isnan(values)), ("zeros", constant & (values == 0)),
                          ("constant", constant & (values != 0))):  # fmt: skip
            whole = np.bincount(entries[own], minlength=len(widths)) == widths
            self.rows[name] += int(whole[widths > 1].sum())
        # Lower halves of addresses at positions 0 or 2, each followed by its upper half, a denormal, which many logs
        # print as zero.
        head = positions < HEAD
        low = head & (is_out | has(codes, "pointer")) & (positions % 2 == 0)
        high = head & (kinds["denormal"] | kinds["zero"] | kinds["address"]) & (positions % 2 == 1)
        lows = set(zip(entries[low].tolist(), (positions[low] + 1).tolist(), strict=True))
        highs = zip(entries[high].tolist(), positions[high].tolist(), strict=True)
        self.rows["addresses"] += len({entry for entry, position in highs if (entry, position) in lows})


def findings_of(tally: DamageTally, length: int = 0) -> list[LogFinding]:
    """Of a whole log, damage first; ``length`` is that of a whole row, 0 where the log does not say it."""
    at: dict[str, Counter[int]] = tally.at
    of, rows, seen = tally.of, tally.rows, tally.seen
    found: list[LogFinding] = []

    def add(cause: Cause, certainty: Certainty, kinds: Iterable[str], more: str = "", entries: int = 0) -> None:
        counts = {kind: at[kind] for kind in kinds if at[kind]}
        places = sum(counts.values(), Counter[int]())
        facts = listed([f"{count.total():,} {KINDS[kind]}" for kind, count in counts.items()])
        entries = entries or max(of[kind] for kind in counts)
        first, evidence = tuple(sorted(places)[:MOST_POSITIONS]), (facts, more) if more else (facts,)
        title = TITLES[cause]
        found.append(LogFinding(cause, certainty, places.total(), entries, first, evidence, len(places), title))

    # Padding: positions up to the end of a row that hold zeros or masks in nearly every entry.
    padded = end = len(seen)
    if end >= length > 0:
        empty = np.array([at["zero"][place] + at["mask"][place] for place in range(end)])
        last = int(np.flatnonzero(empty < NEARLY_ALL * np.maximum(seen, 1)).max(initial=-1))
        padded = end if last < 0 else last + 1
    if padded < end:
        values = sum(count for kind in ("zero", "mask") for place, count in at[kind].items() if place >= padded)
        words, count = f"the last {end - padded:,} positions of the row, from {padded:,} on", tally.sums["entries"]
        certainty: Certainty = "sure" if end - padded > 1 else "likely"
        title = TITLES["padding"]
        found.append(LogFinding("padding", certainty, values, count, (padded,), (words,), end - padded, title))
    memory = ("address", "denormal", "zero", "huge", "far")
    at = {**at} | {kind: Counter({p: c for p, c in at[kind].items() if p < padded}) for kind in (*memory, "mask")}
    if at["mask"]:
        some = ", ".join(significant(value) for value, _ in tally.masks.most_common(3))
        add("masked", "sure" if at["mask"].total() > 1 else "likely", ["mask"], f"such as {some}")
    if at["nan"] or at["overflow"]:
        is_likely = rows["nan"] or (at["nan"] and at["overflow"])
        add("overflow", "likely" if is_likely else "possible", ["overflow", "nan"])
    if at["constant"]:
        whole = rows["zeros"] + rows["constant"]
        add("not_written", "sure" if whole > 1 and rows["zeros"] else "likely", ["constant"], entries=whole)
    # Garbage left by other uses of the memory. With signs of a freed buffer, all garbage counts as that.
    garbage, stale = sum((at[kind] for kind in memory), Counter[int]()), at["stale"]
    outlier, times = next(iter(tally.outliers.most_common(1)), (0.0, 0))
    again = f"{significant(outlier)} stands {times:,} times" if times >= AGAIN else ""
    signs = [bool(at["address"]), rows["addresses"] > 0, bool(again) and tally.repeated_outliers > 0]
    if any(signs):
        zeros = at["zero"]
        signs += [any(place % 2 == 0 and place + 1 in zeros for place in zeros), bool(stale)]
        certainty = "possible"
        is_written = (garbage + stale).total() < MOSTLY * int(seen.sum())
        if is_written and (at["address"].total() > A_PAIR or (rows["addresses"] > 1 and sum(signs) > 1)):
            certainty = "sure"
        elif rows["addresses"] or sum(signs) > 1 or tally.repeated_outliers >= AGAIN:
            certainty = "likely"
        add("freed", certainty, [*memory, "stale"], again)
    elif stale:
        is_likely = rows["repeated"] > 0 or stale.total() > AGAIN
        add("stale", "likely" if is_likely else "possible", ["stale"])
    if garbage and not any(signs):
        is_random = bool(at["huge"] or at["denormal"])
        is_at_places = len(garbage) <= max(HEAD, len(seen) // 10) and garbage.total() >= AGAIN
        cause: Cause = "uninitialised" if is_random or is_at_places else "unknown"
        add(cause, "likely" if is_random and is_at_places else "possible", memory, again)
    order = CERTAINTIES.index
    return sorted(found, key=lambda one: (one.cause in ON_PURPOSE, -one.values, order(one.certainty)))


def positions_in_words(positions: Iterable[int]) -> str:
    """``position 0``, ``positions 0, 2 and 8``, ``positions 100 to 180``."""
    known = sorted(positions)
    if len(known) == 1:
        return f"position {known[0]:,}"
    is_whole = known[-1] - known[0] == len(known) - 1
    if len(known) > MOST_POSITIONS or (len(known) > 3 and is_whole):
        return f"positions {known[0]:,} to {known[-1]:,}" + ("" if is_whole else f" ({len(known):,} of them)")
    return f"positions {listed([f'{position:,}' for position in known])}"
