"""Captions of the charts that compare two logs, and the rows of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.figures.words import UNKNOWN, counted, significant
from engine.logits.parity import EntryAgreement, Parity
from engine.logits.parity_detail import CheckpointCoverage, LoggedEntries, ParityDetail
from engine.logits.parity_words import FIGURE_NAMES

FIGURES: Mapping[str, str] = {
    "relative": "Relative difference",
    "apart": "1 − cosine",
    "max_difference": "Largest difference",
}
"""Of one entry of both logs; smaller is closer."""


def figure_of(place: EntryAgreement, name: str) -> float | None:
    if name == "apart":
        return None if place.cosine is None else max(0.0, 1 - place.cosine)
    found: float | None = getattr(place, name)
    return found


def small(value: float | None) -> str:
    """Differences range over many powers of ten."""
    return UNKNOWN if value is None else f"{value:.2g}"


def where(place: EntryAgreement, *, has_texts: bool) -> str:
    text = f" of text {place.sequence:,}" if has_texts else ""
    return f"token {place.token_idx:,}{text}"


def first_divergence(places: Sequence[EntryAgreement], tolerance: float) -> EntryAgreement | None:
    """The first of them that differs by more than precision explains."""
    return next((place for place in places if place.relative is not None and place.relative > tolerance), None)


# --- the charts' answers ------------------------------------------------------------------------------------------


def tokens_answer(parity: Parity, places: Sequence[EntryAgreement], name: str) -> str:
    known = [(value, one) for one in places if (value := figure_of(one, name)) is not None]
    if not known:
        return "No common entry has a value without a flag."
    has_texts = len({one.sequence for one in places}) > 1
    worst, place = max(known, key=lambda one: one[0])
    if worst == 0:
        return f"No divergence: all {counted(len(known), 'entry', 'entries')} agree bit for bit."
    middle = float(np.median([value for value, _ in known]))
    most = f"largest {small(worst)} at {where(place, has_texts=has_texts)}"
    words = f"{FIGURES[name]}: median {small(middle)}, {most}."
    over = sum(one.relative is not None and one.relative > parity.tolerance for one in places)
    first = first_divergence(places, parity.tolerance)
    if first is None:
        return f"{words} No entry differs by more than precision explains (relative {parity.tolerance:g})."
    differ = "differs" if over == 1 else "differ"
    return (
        f"{words} {counted(over, 'entry', 'entries')} of {len(known):,} {differ} by more than precision explains "
        f"(relative {parity.tolerance:g}), the first at {where(first, has_texts=has_texts)}."
    )


def scatter_answer(detail: ParityDetail) -> str:
    sound = ~detail.points.is_flagged
    if not sound.any():
        return "Every pair has a flagged value: nothing to compare."
    control, test = detail.points.control[sound], detail.points.test[sound]
    if (control == test).all():
        words = f"All {counted(int(sound.sum()), 'pair')} are on the line: equal bit for bit."
    else:
        off = np.abs(test - control)
        words = f"Distance to the line: median {small(float(np.median(off)))}, largest {small(float(off.max()))}, "
        words += f"for values from {significant(control.min(), 3)} to {significant(control.max(), 3)}."
    return f"{words} {counted(detail.flagged, 'pair has', 'pairs have')} a flagged value." if detail.flagged else words


def positions_answer(detail: ParityDetail) -> str:
    known = [position for position in detail.positions if position.mean_difference is not None]
    flagged = [position for position in detail.positions if position.flagged]
    ends = ""
    if flagged:
        most = max(flagged, key=lambda one: one.flagged)
        ends = f" Flagged pairs are at {counted(len(flagged), 'position')}, "
        ends += f"most at position {most.position:,} ({most.flagged:,})."
    if not known:
        return f"No position has a pair without a flag.{ends}"
    means = [one.mean_difference or 0.0 for one in known]
    worst = max(known, key=lambda one: one.mean_difference or 0.0)
    if not worst.mean_difference:
        return f"At no position: all {counted(len(known), 'position')} agree bit for bit.{ends}"
    middle = float(np.median(means))
    times = f", {worst.mean_difference / middle:.3g} times the median" if middle else ""
    return (
        f"The mean difference is largest at position {worst.position:,}: {small(worst.mean_difference)}{times}. "
        f"{'No position stands out.' if middle and worst.mean_difference < 3 * middle else ''}".strip()
        + ends
    )


# --- rows ---------------------------------------------------------------------------------------------------------


def filter_rows(parity: Parity) -> list[dict[str, Any]]:
    """One row per filter where no value is flagged, else one with and one without flagged values."""
    found = []
    for filter_ in parity.filters:
        both = (("with", filter_.with_flagged), ("without", filter_.without_flagged))
        for flagged, agreement in both if parity.filters[0].flagged else (("none", filter_.with_flagged),):
            found.append(
                {
                    "positions": filter_.name,
                    "flagged": flagged,
                    "supported": "✓" if filter_.name == parity.supported and flagged != "without" else None,
                    "entries": agreement.entries,
                    "pairs": agreement.values,
                    **{name: getattr(agreement, key) for key, name in FIGURE_NAMES.items()},
                    "not finite": agreement.not_finite,
                }
            )
    return found


def place_rows(places: Sequence[EntryAgreement]) -> list[dict[str, Any]]:
    return [
        {
            "checkpoint": place.checkpoint,
            "text": place.sequence,
            "token": place.token_idx,
            "pairs": place.values,
            "flagged": place.flagged,
            "relative": place.relative,
            "cosine": place.cosine,
            "largest difference": place.max_difference,
            "same top-1": place.has_same_top,
        }
        for place in places
    ]


def point_rows(detail: ParityDetail) -> list[dict[str, Any]]:
    points = detail.points
    columns = (detail.token_idx, points.position, points.control, points.test, points.is_flagged)
    return [
        {"token": token, "position": position, "A": a, "B": b, "B − A": b - a, "flagged": "yes" if off else ""}
        for token, position, a, b, off in zip(*(column.tolist() for column in columns), strict=True)
    ]


def coverage_rows(parity: Parity | None, found: Sequence[CheckpointCoverage]) -> list[dict[str, Any]]:
    """One row per checkpoint, in the order of the model."""
    return [
        {
            "checkpoint": one.checkpoint,
            "in A": _logged(one.control),
            "in B": _logged(one.test),
            "in both": one.both,
            **({} if parity is None else _agreement(parity, one.checkpoint)),
        }
        for one in found
    ]


def _agreement(parity: Parity, checkpoint: str) -> dict[str, Any]:
    places = [place for place in parity.places if place.checkpoint == checkpoint]
    known = [place.relative for place in places if place.relative is not None]
    first = first_divergence(places, parity.tolerance)
    return {
        "relative, median": float(np.median(known)) if known else None,
        "relative, largest": max(known, default=None),
        "diverges at": None if first is None else where(first, has_texts=len({place.sequence for place in places}) > 1),
    }


def _logged(one: LoggedEntries | None) -> str | None:
    if one is None:
        return None
    entries = counted(one.entries, "entry", "entries") if one.texts == 1 else f"{one.entries:,} in {one.texts:,} texts"
    return f"{entries}, tokens {one.first_token:,}–{one.last_token:,}"
