"""Lanes that have ended, in figures: each as it is, beside the first as a ratio, and where their texts part.

Ratios are always a lane over the first one. What this module does not know: which molecule is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.live.watching import LaneWatch, first_difference
from engine.text.tokenizers import load_tokenizer


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a lane's text leaves the first lane's. ``atom`` is the template's, None outside of blocks."""

    pos: int
    first_piece: str  # "" where that text has ended
    piece: str
    atom: int | None


def figures_of(watch: LaneWatch, row: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a table of lanes shows of one. ``row`` is its row of ``runs``, None where it was not written to the end."""
    counted, plan = watch.counted, watch.lane.plan.plan
    found: dict[str, Any] = {
        "lp": plan.lp,
        "backend": plan.backend,
        "seconds": counted.seconds or None,
        "tokens": counted.tokens,
        "tokens_a_second": watch.tokens_a_second or None,
        "forced_share": counted.forced_tokens / counted.tokens if counted.tokens else None,
        "forward_passes": counted.forward_passes,
    }
    names = ("samples", "passes", "clean", "blocks", "bad_blocks", "cut_blocks", "rmsd_ang")
    return found | {name: None if row is None else row.get(name) for name in names}


def with_ratios(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with the first one's figures as the measure of the others'."""
    return [
        {
            **row,
            "time_ratio": _over(row["seconds"], rows[0]["seconds"]),
            "speed_ratio": _over(row["tokens_a_second"], rows[0]["tokens_a_second"]),
        }
        for row in rows
    ]


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def parting(first: LaneWatch, other: LaneWatch, sample: int) -> Parting | None:
    """Where the sample's two texts part; None where they are the same."""
    left, right = first.texts.get(sample), other.texts.get(sample)
    if left is None or right is None or other.opened is None:
        return None
    place = first_difference(left.ids, right.ids)
    if place is None:
        return None
    tokenizer, aligned = load_tokenizer(other.opened.tokenizer), other.alignment(sample)
    rows = () if aligned is None else aligned.rows
    atom = next((row.block for row in rows if row.pos == place and row.block >= 0), None)
    pieces = [tokenizer.piece(text.ids[place]) if place < len(text.ids) else "" for text in (left, right)]
    return Parting(place, pieces[0], pieces[1], atom)
