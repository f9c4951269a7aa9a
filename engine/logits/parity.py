"""Two logs of one prompt: how far the engines agree, and where they diverge.

What only one of them logged is counted and left out. Each figure is of all values and without the flagged ones, under
each of the position filters that the reports advise; which filter the data supports is measured, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import FileFormatError
from engine.figures.statistics import ranks
from engine.figures.words import counted, percent, precision_name, shortened
from engine.inspection.memo import computed_once
from engine.logits.causes import positions_in_words
from engine.logits.pairs import Pairs, chosen, pairs_of
from engine.logits.rules import Real, Whole, load_rules
from engine.store.entries import Entry
from engine.store.schema import LOGIT_ENTRIES
from engine.store.store import Store

MOST_NAME, MOST_TOKENS, MOST_DIGITS = 40, 100_000, 12
# Which positions are left out, the mildest first.
FILTERS: Mapping[str, Sequence[int]] = {"all": (), "skip 0": (0,), "skip 0 and 2": (0, 2), "from 3 on": (0, 1, 2)}
TINY = np.finfo(np.float64).tiny  # in place of 0 below a fraction
Parity = dict[str, Any]
FIGURES = ("max_difference", "mean_difference", "shift", "relative", "max_relative", "cosine", "rank", "top_1")
MEANS = ("cosine", "rank", "has_same_top")  # of entries: the last three figures
PLACE = ("values", "max_difference", "relative", "cosine", "has_same_top")


def log_name(row: Mapping[str, Any]) -> str:
    """``llama.cpp (demo, float16)``: engine, model and precision; what is not known is left out. Anybody's text."""
    known = (row["engine"], row.get("model"), precision_name(row.get("precision")))
    engine, *more = [shortened(str(name), MOST_NAME) for name in known if name]
    return f"{engine} ({', '.join(more)})" if more else engine


@computed_once(8)
def compare_logs(store: Store, control: Entry, test: Entry) -> Parity:
    """Both logs' figures, as `logits parity` prints them.

    ``filters``: name, with_flagged, without_flagged, flagged: pairs left with a flagged value; ``supported`` is the
    mildest filter that leaves none, null where none is enough. ``places``: entries of both logs, and how far they agree
    without flagged values; ``diverging`` is the first whose relative difference is over ``tolerance``. ``by_number``:
    texts are matched by their number alone, since the logs share no names.
    """
    if control.id == test.id:
        raise FileFormatError(f"{control.id} is given twice", "Parity takes two logs")
    met, pairs, by_number = pairs_of(store, control, test)
    if len(pairs["entry"]) == 0:
        what = f"{control.id} and {test.id} share no checkpoint, token and position"
        raise FileFormatError(what, "Log the same prompt with both")
    one, other = log_name(control.row), log_name(test.row)
    # The precision of the weights, else of the values as logged.
    precisions = (entry.row.get("precision") or entry.row.get("dtype") for entry in (control, test))
    tolerance = max(map(load_rules().tolerance, precisions))
    filters, sound = list[dict[str, Any]](), dict[str, Real]()
    for name, left_out in FILTERS.items():
        kept = chosen(pairs, np.isin(pairs["position"], left_out, invert=True))
        flagged, (whole, rows) = int(kept["is_flagged"].sum()), _agreement(kept)
        without, rows = _agreement(chosen(kept, ~kept["is_flagged"])) if flagged else (whole, rows)
        filters.append({"name": name, "with_flagged": whole, "without_flagged": without, "flagged": flagged})
        sound = sound or rows  # of all positions
    # The entries that share a position, in the control's order.
    entries, starts = np.unique(pairs["entry"], return_index=True)
    places: list[dict[str, Any]] = met.take(pa.array(np.searchsorted(met["entry"].to_numpy(), entries))).to_pylist()
    known = dict(zip(sound["entry"].tolist(), zip(*(sound[name].tolist() for name in PLACE), strict=True), strict=True))
    for place, flagged in zip(
        places, np.add.reduceat(pairs["is_flagged"], starts, dtype=np.int64).tolist(), strict=True
    ):
        figures = known.get(place.pop("entry"), (0, *[math.nan] * 4))
        place |= {name: value if math.isfinite(value) else None for name, value in zip(PLACE, figures, strict=True)}
        place |= {
            "has_same_top": None if place["has_same_top"] is None else bool(place["has_same_top"]),
            "flagged": flagged,
        }
    only = (log.parts[LOGIT_ENTRIES.name].rows - len(places) for log in (control, test))
    return {
        "control": control.id,
        "test": test.id,
        "control_name": one if one != other else control.id,
        "test_name": other if one != other else test.id,
        "by_number": by_number,
        "entries": len(places),
        **dict(zip(("only_control", "only_test"), only, strict=True)),
        "filters": filters,
        "supported": next((f["name"] for f in filters if not f["flagged"] and f["with_flagged"]["values"]), None),
        "flagged_positions": np.unique(pairs["position"][pairs["is_flagged"]]).tolist(),
        "places": places[:MOST_TOKENS],
        "tolerance": tolerance,
        "diverging": next((place for place in places if (place["relative"] or 0.0) > tolerance), None),
    }


@np.errstate(
    over="ignore", invalid="ignore", divide="ignore"
)  # of values near the largest that there are, sums are infinite
def _agreement(pairs: Pairs) -> tuple[dict[str, Any], dict[str, Real]]:
    """Of pairs of finite values; a figure is null where it cannot be computed. And the figures of each entry [E].

    Differences are test minus control. ``relative`` is the root mean square of the differences over that of the
    control; it includes a shift of a whole row (``shift``), which does not change probabilities. ``max_relative`` is of
    one value, over the larger of the pair. ``cosine``, ``rank`` and ``top_1`` are means over entries.
    """
    finite = chosen(pairs, pairs["is_finite"])
    control, test, entry = (finite[name] for name in ("control", "test", "entry"))
    starts = np.flatnonzero(np.diff(entry, prepend=-1))
    widths = np.diff(np.append(starts, len(entry)))
    row, place = np.repeat(np.arange(len(starts)), widths), np.arange(len(entry))
    counts = {"entries": len(starts), "values": len(entry), "not_finite": len(pairs["entry"]) - len(entry)}

    def sums(values: Real) -> Real:
        return np.asarray(np.add.reduceat(values, starts))

    def most(values: Real) -> Real:
        return np.asarray(np.maximum.reduceat(values, starts))

    def cosine(*both: Real) -> Real:
        """Scaled first: huge numbers have no square."""
        one, other = (values / np.maximum(most(np.abs(values)), TINY)[row] for values in both)
        size = np.sqrt(sums(one**2)) * np.sqrt(sums(other**2))
        return np.where(size > 0, sums(one * other) / size, np.nan)

    def centred_ranks(values: Real) -> Real:
        """Of ranks among all, since an entry's mean is taken away."""
        ranked = ranks((row * len(values) + np.unique(values, return_inverse=True)[1]).astype(np.float64))
        return np.asarray(ranked - (sums(ranked) / widths)[row])

    def top(values: Real) -> Whole:
        """The place of each entry's largest value."""
        return np.asarray(np.minimum.reduceat(np.where(values == most(values)[row], place, len(place)), starts))

    difference, size = test - control, np.sqrt(sums(control**2))
    rows = {
        "entry": entry[starts],
        "values": widths,
        "max_difference": most(np.abs(difference)),
        "relative": np.where(size > 0, np.sqrt(sums(difference**2)) / size, np.nan),
        "cosine": cosine(control, test),
        "rank": cosine(centred_ranks(control), centred_ranks(test)),
        "has_same_top": np.where(widths > 1, top(control) == top(test), np.nan),
    }
    if not counts["values"]:
        return counts | dict.fromkeys(FIGURES), rows
    means, scale = [rows[name][np.isfinite(rows[name])] for name in MEANS], np.abs(control).max()
    larger = np.maximum(np.abs(control), np.abs(test))
    figures = (
        np.abs(difference).max(),
        np.abs(difference).mean(),
        difference.mean(),
        np.sqrt(np.mean((difference / scale) ** 2)) / np.sqrt(np.mean((control / scale) ** 2)) if scale else None,
        (np.abs(difference) / np.maximum(larger, TINY)).max(),
        *(mean.mean() if len(mean) else None for mean in means),
    )
    known = (None if figure is None else float(figure) for figure in figures)
    return counts | dict(zip(FIGURES, known, strict=True)), rows


# --- in sentences ---------------------------------------------------------------------------------------------------


def parity_sentences(parity: Parity) -> list[str]:
    """The answer first, then where they diverge, flags, and what was left out."""
    agreed, flagged = parity["filters"][0]["without_flagged"], parity["filters"][0]["flagged"]
    first, relative = parity["diverging"], agreed["relative"]
    names, mean = f"{parity['test_name']} and {parity['control_name']}", agreed["mean_difference"]
    pairs = f"{counted(agreed['values'], 'value')} of {counted(agreed['entries'], 'entry', 'entries')}"
    if not agreed["values"]:
        found = [f"{names} cannot be compared: no pair of values is without a flag."]
    elif agreed["max_difference"] == 0:
        found = [f"{names} agree bit for bit in {pairs}."]
    elif relative is None:
        found = [f"{names} differ by {mean:.2g} on average in {pairs}, all 0 in the control."]
    else:
        # Decimal digits to which the values agree, by the root mean square of their differences.
        digits = counted(max(0, min(MOST_DIGITS, math.floor(-math.log10(relative)))), "digit")
        rank = "" if agreed["rank"] is None else f", rank correlation {agreed['rank']:.4f}"
        top = "" if agreed["top_1"] is None else f"; same largest value in {percent(agreed['top_1'])} of the entries"
        most = f"{mean:.2g} on average and {agreed['max_difference']:.2g} at most"
        found = [f"{names} agree to about {digits}: {pairs} differ by {most}{rank}{top}."]
        if abs(agreed["shift"]) >= 0.9 * mean:
            found[0] += f" Nearly all of that is a shift of {agreed['shift']:+.2g}, which changes no probability."
    if first is not None:
        place = f"checkpoint {first['checkpoint']}, token {first['token_idx']:,}"
        explained = f"their precision explains {parity['tolerance']:g}"
        found.append(f"First divergence: {place}, relative difference {first['relative']:.2g}; {explained}.")
    elif relative is not None:
        limit = parity["tolerance"]
        found.append(f"No divergence: no relative difference is over {limit:g}, which precision explains.")
    if not flagged:
        found.append("No compared value has a flag; no position filter is needed.")
    else:
        where = positions_in_words(parity["flagged_positions"])
        enough = "No position filter is enough: leave out flagged values instead."
        if parity["supported"] is not None:
            enough = f"The mildest position filter without a flagged value: “{parity['supported']}”."
        found.append(f"{counted(flagged, 'pair has', 'pairs have')} a flagged value, at {where}. {enough}")
    if parity["only_control"] or parity["only_test"]:
        both, left = counted(parity["entries"], "entry", "entries"), (parity["only_control"], parity["only_test"])
        found.append(f"In both: {both}; left out: {left[0]:,} of the control, {left[1]:,} of the test.")
    if parity["by_number"]:
        found.append("The logs share no source names: the n-th text of one is compared with the n-th of the other.")
    return found
