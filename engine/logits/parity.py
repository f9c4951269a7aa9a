"""Two logs of one prompt: how far the engines agree, and where they diverge.

What only one of them logged is counted and left out. Each figure is of all values and without the flagged ones, under
each of the position filters that the reports advise; which filter the data supports is measured, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import FileFormatError
from engine.figures.statistics import ranks
from engine.figures.words import counted, percent, precision_name, shortened
from engine.inspection.memo import computed_once
from engine.logits.causes import positions_in_words
from engine.logits.pairs import ValuePairs, pairs_of
from engine.logits.rules import Marks, Real, Whole, load_rules
from engine.store.entries import Entry
from engine.store.store import Store

MOST_NAME, MOST_TOKENS, MOST_DIGITS = 40, 100_000, 12
_COUNTS = "SELECT log_id, count(*) AS entries FROM logit_entries GROUP BY ALL"
FILTERS: Mapping[str, Callable[[Whole], Marks]] = {
    # Mildest first.
    "all": lambda positions: positions >= 0,
    "skip 0": lambda positions: positions != 0,
    "skip 0 and 2": lambda positions: (positions != 0) & (positions != 2),
    "from 3 on": lambda positions: positions >= 3,
}
FIGURES = ("max_difference", "mean_difference", "shift", "relative", "max_relative", "cosine", "rank", "top_1")


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
    filters: list[dict[str, Any]]  # name, with_flagged, without_flagged, flagged: pairs left with a flagged value
    supported: str | None  # the mildest filter that leaves no flagged value; null where none is enough
    flagged_positions: list[int]
    places: list[dict[str, Any]]  # entries of both logs, and how far they agree without flagged values
    tolerance: float
    diverging: dict[str, Any] | None  # the first whose relative difference is larger


def log_name(row: Mapping[str, Any]) -> str:
    """``llama.cpp (demo, float16)``: engine, model and precision; what is not known is left out. Anybody's text."""
    known = (row["engine"], row.get("model"), precision_name(row.get("precision")))
    engine, *more = [shortened(str(name), MOST_NAME) for name in known if name]
    return f"{engine} ({', '.join(more)})" if more else engine


@computed_once(8)
def compare_logs(store: Store, control: Entry, test: Entry) -> Parity:
    if control.id == test.id:
        raise FileFormatError(f"{control.id} is given twice", "Parity takes two logs")
    met, pairs, by_number = pairs_of(store, control, test)
    if len(pairs.entry) == 0:
        what = f"{control.id} and {test.id} share no checkpoint, token and position"
        raise FileFormatError(what, "Log the same prompt with both")
    one, other = log_name(control.row), log_name(test.row)
    # The precision of the weights, else of the values as logged.
    precisions = (entry.row.get("precision") or entry.row.get("dtype") for entry in (control, test))
    tolerance = max(map(load_rules().tolerance, precisions))
    filters: list[dict[str, Any]] = []
    for name, keeps in FILTERS.items():
        kept = pairs.where(keeps(pairs.position))
        flagged, whole = int(kept.is_flagged.sum()), _agreement(kept)
        without = _agreement(kept.where(~kept.is_flagged)) if flagged else whole
        filters.append({"name": name, "with_flagged": whole, "without_flagged": without, "flagged": flagged})
    counts = {row["log_id"]: row["entries"] for row in store.table(_COUNTS, of=[control.id, test.id]).to_pylist()}
    places = _places(met, pairs)
    return Parity(
        control.id,
        test.id,
        one if one != other else control.id,
        other if one != other else test.id,
        by_number,
        len(places),
        counts[control.id] - len(places),
        counts[test.id] - len(places),
        filters,
        next((one["name"] for one in filters if not one["flagged"] and one["with_flagged"]["values"]), None),
        np.unique(pairs.position[pairs.is_flagged]).tolist(),
        places[:MOST_TOKENS],
        tolerance,
        next((place for place in places if (place["relative"] or 0.0) > tolerance), None),
    )


class _Groups:
    """Values in order of their entries, summed and compared within each."""

    def __init__(self, entry: Whole) -> None:
        self.starts = np.flatnonzero(np.concatenate([[True], entry[1:] != entry[:-1]]))
        self.widths = np.diff(np.append(self.starts, len(entry)))
        self.row = np.repeat(np.arange(len(self.starts)), self.widths)

    def sums(self, values: Real) -> Real:
        return np.asarray(np.add.reduceat(values, self.starts))

    def cosine(self, one: Real, other: Real) -> Real:
        """NaN where one of the two is 0. Scaled first: huge numbers have no square."""
        scaled = []
        for values in (one, other):
            most = np.maximum.reduceat(np.abs(values), self.starts)[self.row]
            scaled.append(np.divide(values, most, out=np.zeros_like(values), where=most > 0))
        size = np.sqrt(self.sums(scaled[0] ** 2)) * np.sqrt(self.sums(scaled[1] ** 2))
        return np.asarray(np.divide(self.sums(scaled[0] * scaled[1]), size, np.full(len(size), np.nan), where=size > 0))

    def rank(self, one: Real, other: Real) -> Real:
        """Spearman's correlation: of ranks among all, since an entry's mean is taken away."""
        centred = []
        for values in (one, other):
            places = np.unique(values, return_inverse=True)[1].astype(np.int64)
            ranked = ranks((self.row * len(values) + places).astype(np.float64))
            centred.append(ranked - (self.sums(ranked) / self.widths)[self.row])
        return self.cosine(*centred)

    def top(self, values: Real) -> Whole:
        """The place of each entry's largest value."""
        is_best = values == np.maximum.reduceat(values, self.starts)[self.row]
        places = np.where(is_best, np.arange(len(values)), len(values))
        return np.asarray(np.minimum.reduceat(places, self.starts))


@np.errstate(over="ignore", invalid="ignore")  # of values near the largest that there are, sums are infinite
def _agreement(pairs: ValuePairs) -> dict[str, Any]:
    """Of pairs of finite values; a figure is null where it cannot be computed.

    Differences are test minus control. ``relative`` is the root mean square of the differences over that of the
    control; it includes a shift of a whole row (``shift``), which does not change probabilities. ``max_relative`` is of
    one value, over the larger of the pair. ``cosine``, ``rank`` and ``top_1`` are means over entries.
    """
    finite = pairs.where(pairs.is_finite)
    counts = {"entries": 0, "values": len(finite.entry), "not_finite": int((~pairs.is_finite).sum())}
    if not len(finite.entry):
        return counts | dict.fromkeys(FIGURES)

    def mean(values: Real) -> float | None:
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else None

    rows, control, test = _Groups(finite.entry), finite.control, finite.test
    difference, size = test - control, np.maximum(np.abs(control), np.abs(test))
    most = float(np.abs(control).max())
    is_wide = rows.widths > 1
    figures = (
        np.abs(difference).max(),
        np.abs(difference).mean(),
        difference.mean(),
        np.sqrt(np.mean((difference / most) ** 2)) / np.sqrt(np.mean((control / most) ** 2)) if most else None,
        np.divide(np.abs(difference), size, out=np.zeros_like(size), where=size > 0).max(),
        mean(rows.cosine(control, test)),
        mean(rows.rank(control, test)),
        (rows.top(control) == rows.top(test))[is_wide].mean() if is_wide.any() else None,
    )
    known = [None if figure is None else float(figure) for figure in figures]
    return counts | {"entries": len(rows.starts)} | dict(zip(FIGURES, known, strict=True))


@np.errstate(over="ignore", invalid="ignore")
def _places(met: pa.Table, pairs: ValuePairs) -> list[dict[str, Any]]:
    """The entries that share a position, in the control's order."""
    whole = _Groups(pairs.entry)
    entries, flagged = pairs.entry[whole.starts], np.add.reduceat(pairs.is_flagged, whole.starts, dtype=np.int64)
    where = met.take(pa.array(np.searchsorted(met["entry"].to_numpy(), entries)))
    found = np.full((5, len(entries)), np.nan)
    found[0] = 0
    sound = pairs.where(pairs.is_finite & ~pairs.is_flagged)
    if len(sound.entry):
        rows, difference = _Groups(sound.entry), sound.test - sound.control
        here = np.searchsorted(entries, sound.entry[rows.starts])
        found[0, here] = rows.widths
        found[1, here] = np.maximum.reduceat(np.abs(difference), rows.starts)
        most = np.sqrt(rows.sums(sound.control**2))
        found[2, here] = np.where(most > 0, np.sqrt(rows.sums(difference**2)) / most, np.nan)
        found[3, here] = rows.cosine(sound.control, sound.test)
        found[4, here] = np.where(rows.widths > 1, rows.top(sound.control) == rows.top(sound.test), np.nan)
    columns = [where[name].to_pylist() for name in ("checkpoint", "token_idx", "sequence")]
    known = [[value if np.isfinite(value) else None for value in column] for column in found[1:].tolist()]
    names = ("values", "max_difference", "relative", "cosine", "has_same_top", "flagged")
    same = [None if value is None else bool(value) for value in known.pop()]
    figures = zip(found[0].astype(int).tolist(), *known, same, flagged.tolist(), strict=True)
    return [
        {"checkpoint": checkpoint, "token_idx": token, "sequence": text, **dict(zip(names, row, strict=True))}
        for checkpoint, token, text, row in zip(*columns, figures, strict=True)
    ]


# --- in sentences ---------------------------------------------------------------------------------------------------


def parity_sentences(parity: Parity) -> list[str]:
    """The answer first, then where they diverge, flags, and what was left out."""
    agreed, flagged, first = parity.filters[0]["without_flagged"], parity.filters[0]["flagged"], parity.diverging
    names, mean = f"{parity.test_name} and {parity.control_name}", agreed["mean_difference"]
    pairs = f"{counted(agreed['values'], 'value')} of {counted(agreed['entries'], 'entry', 'entries')}"
    if not agreed["values"]:
        found = [f"{names} cannot be compared: no pair of values is without a flag."]
    elif agreed["max_difference"] == 0:
        found = [f"{names} agree bit for bit in {pairs}."]
    elif agreed["relative"] is None:
        found = [f"{names} differ by {mean:.2g} on average in {pairs}, all 0 in the control."]
    else:
        # Decimal digits to which the values agree, by the root mean square of their differences.
        digits = max(0, min(MOST_DIGITS, math.floor(-math.log10(agreed["relative"]))))
        rank = "" if agreed["rank"] is None else f", rank correlation {agreed['rank']:.4f}"
        top = "" if agreed["top_1"] is None else f"; same largest value in {percent(agreed['top_1'])} of the entries"
        found = [
            f"{names} agree to about {counted(digits, 'digit')}: {pairs} differ by {mean:.2g} on average and "
            f"{agreed['max_difference']:.2g} at most{rank}{top}."
        ]
        if abs(agreed["shift"]) >= 0.9 * mean:
            found[0] += f" Nearly all of that is a shift of {agreed['shift']:+.2g}, which changes no probability."
    if first is not None:
        found.append(
            f"First divergence: checkpoint {first['checkpoint']}, token {first['token_idx']:,}, relative difference "
            f"{first['relative']:.2g}; their precision explains {parity.tolerance:g}."
        )
    elif agreed["relative"] is not None:
        found.append(f"No divergence: no relative difference is over {parity.tolerance:g}, which precision explains.")
    if not flagged:
        found.append("No compared value has a flag; no position filter is needed.")
    else:
        where = positions_in_words(parity.flagged_positions)
        enough = "No position filter is enough: leave out flagged values instead."
        if parity.supported is not None:
            enough = f"The mildest position filter without a flagged value: “{parity.supported}”."
        found.append(f"{counted(flagged, 'pair has', 'pairs have')} a flagged value, at {where}. {enough}")
    if parity.only_control or parity.only_test:
        both = counted(parity.entries, "entry", "entries")
        found.append(
            f"In both: {both}; left out: {parity.only_control:,} of the control, {parity.only_test:,} of the test."
        )
    if parity.by_number:
        found.append("The logs share no source names: the n-th text of one is compared with the n-th of the other.")
    return found
