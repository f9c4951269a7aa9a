"""What the charts of two logs say in words, and the rows of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.logits.parity import Agreement, Parity, Place
from engine.logits.parity_detail import Coverage, Detail, Logged

FIGURES: Mapping[str, str] = {
    "relative": "Relative difference",
    "apart": "1 − cosine",
    "max_difference": "Largest difference",
}
"""Of one entry of both logs: smaller is nearer."""
AGREED = {
    "max_difference": "largest",
    "mean_difference": "mean",
    "relative": "relative",
    "cosine": "cosine",
    "rank": "rank",
    "top_1": "top-1",
}
UNKNOWN = "–"


def figure_of(place: Place, name: str) -> float | None:
    if name == "apart":
        return None if place.cosine is None else max(0.0, 1 - place.cosine)
    found: float | None = getattr(place, name)
    return found


def small(value: float | None) -> str:
    """Differences run over many powers of ten."""
    return UNKNOWN if value is None else f"{value:.2g}"


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def where(place: Place, *, has_texts: bool) -> str:
    text = f" of text {place.sequence:,}" if has_texts else ""
    return f"token {place.token_idx:,}{text}"


def parts_at(places: Sequence[Place], tolerance: float) -> Place | None:
    """The first of them that differs by more than precision explains."""
    return next((one for one in places if one.relative is not None and one.relative > tolerance), None)


# --- the charts' answers ------------------------------------------------------------------------------------------


def tokens_answer(parity: Parity, places: Sequence[Place], name: str) -> str:
    known = [(value, one) for one in places if (value := figure_of(one, name)) is not None]
    if not known:
        return "No entry of both logs has a value without a flag."
    has_texts = len({one.sequence for one in places}) > 1
    worst, place = max(known, key=lambda one: one[0])
    if worst == 0:
        return f"Nowhere: all {plural(len(known), 'entry', 'entries')} agree bit for bit."
    middle = float(np.median([value for value, _ in known]))
    most = f"{small(worst)} at most, at {where(place, has_texts=has_texts)}"
    words = f"{FIGURES[name]}: {small(middle)} in the middle, {most}."
    over = sum(one.relative is not None and one.relative > parity.tolerance for one in places)
    first = parts_at(places, parity.tolerance)
    if first is None:
        return f"{words} No entry differs by more than precision explains (relative {parity.tolerance:g})."
    return (
        f"{words} {plural(over, 'entry', 'entries')} of {len(known):,} differ by more than precision explains "
        f"(relative {parity.tolerance:g}), the first at {where(first, has_texts=has_texts)}."
    )


def scatter_answer(detail: Detail) -> str:
    sound = ~detail.points.is_flagged
    if not sound.any():
        return "Every pair has a flagged value: there is nothing to set against each other."
    control, test = detail.points.control[sound], detail.points.test[sound]
    if (control == test).all():
        words = f"All {plural(int(sound.sum()), 'pair')} lie on the line: they are the same bit for bit."
    else:
        off = np.abs(test - control)
        words = (
            f"Pairs lie {small(float(np.median(off)))} off the line in the middle, {small(float(off.max()))} at most, "
        )
        words += "among values from "
        words += f"{control.min():.3g} to {control.max():.3g}."
    return f"{words} {plural(detail.flagged, 'pair has', 'pairs have')} a flagged value." if detail.flagged else words


def positions_answer(detail: Detail) -> str:
    known = [one for one in detail.positions if one.mean_difference is not None]
    flagged = [one for one in detail.positions if one.flagged]
    ends = ""
    if flagged:
        most = max(flagged, key=lambda one: one.flagged)
        ends = f" Flagged pairs stand at {plural(len(flagged), 'position')}, "
        ends += f"most at position {most.position:,} ({most.flagged:,})."
    if not known:
        return f"No position has a pair without a flag.{ends}"
    means = [one.mean_difference or 0.0 for one in known]
    worst = max(known, key=lambda one: one.mean_difference or 0.0)
    if not worst.mean_difference:
        return f"At no position: {plural(len(known), 'position')} agree bit for bit.{ends}"
    middle = float(np.median(means))
    times = f", {worst.mean_difference / middle:.3g} times the middle one" if middle else ""
    return (
        f"The mean difference is largest at position {worst.position:,}: {small(worst.mean_difference)}{times}. "
        f"{'No position stands out.' if middle and worst.mean_difference < 3 * middle else ''}".strip()
        + ends
    )


# --- rows ---------------------------------------------------------------------------------------------------------


def filter_rows(parity: Parity) -> list[dict[str, Any]]:
    """Without any flagged value, one row a filter: the others would say the same."""
    found = []
    for one in parity.filters:
        both = (("with", one.with_flagged), ("without", one.without_flagged))
        for flagged, agreement in both if parity.filters[0].flagged else (("none", one.with_flagged),):
            found.append(
                {
                    "positions": one.name,
                    "flagged": flagged,
                    "supported": "✓" if one.name == parity.supported and flagged != "without" else None,
                    "entries": agreement.entries,
                    "pairs": agreement.values,
                    **_figures(agreement),
                    "no number": agreement.not_finite,
                }
            )
    return found


def _figures(agreement: Agreement) -> dict[str, float | None]:
    return {name: getattr(agreement, key) for key, name in AGREED.items()}


def place_rows(places: Sequence[Place]) -> list[dict[str, Any]]:
    return [
        {
            "checkpoint": one.checkpoint,
            "text": one.sequence,
            "token": one.token_idx,
            "pairs": one.values,
            "flagged": one.flagged,
            "relative": one.relative,
            "cosine": one.cosine,
            "largest difference": one.max_difference,
            "same top-1": one.has_same_top,
        }
        for one in places
    ]


def point_rows(detail: Detail) -> list[dict[str, Any]]:
    points = detail.points
    columns = (points.token_idx, points.position, points.control, points.test, points.is_flagged)
    return [
        {"token": token, "position": position, "A": a, "B": b, "B − A": b - a, "flagged": "yes" if off else ""}
        for token, position, a, b, off in zip(*(one.tolist() for one in columns), strict=True)
    ]


def coverage_rows(parity: Parity | None, found: Sequence[Coverage]) -> list[dict[str, Any]]:
    """A checkpoint a row, in the order in which the model has them."""
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
    places = [one for one in parity.places if one.checkpoint == checkpoint]
    known = [one.relative for one in places if one.relative is not None]
    first = parts_at(places, parity.tolerance)
    return {
        "relative, middle": float(np.median(known)) if known else None,
        "relative, largest": max(known, default=None),
        "parts at": None if first is None else where(first, has_texts=len({one.sequence for one in places}) > 1),
    }


def _logged(one: Logged | None) -> str | None:
    if one is None:
        return None
    texts = f", {plural(one.texts, 'text')}" if one.texts > 1 else ""
    return f"{plural(one.entries, 'entry', 'entries')}{texts}, tokens {one.first_token:,}–{one.last_token:,}"
