"""Figures of ended lanes: each lane's own, ratios to the first lane, and the first divergence of their texts.

Ratios are always a lane over the first one. What this module does not know: which molecule is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from engine.figures.statistics import quotient
from engine.jobs.lane_state import LaneWatch
from engine.text.match import first_difference
from engine.text.tokenizers import load_tokenizer

OF_RUN = (
    "samples passes decodes clean usable stereo_right geometry_right strain_kcal bad_blocks cut_blocks rmsd_ang "
    "rmsd_samples"
).split()


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a lane's text first differs from the first lane's. ``atom`` is the template's, None outside of blocks."""

    pos: int
    first_piece: str  # "" where that text has ended
    piece: str
    atom: int | None


def figures_of(watch: LaneWatch, row: Mapping[str, Any] | None) -> dict[str, Any]:
    """A lane's row of the table of lanes. ``row`` is its row of ``runs``, None where the lane was not finished."""
    counted = watch.counted
    figures: dict[str, Any] = {
        "seconds": counted.seconds or None,
        "tokens": counted.tokens,
        "tokens_a_second": watch.tokens_a_second or None,
        "forced_share": quotient(counted.forced_tokens, counted.tokens),
        "forward_passes": counted.forward_passes,
        "redrawn_blocks": watch.redrawn.total() if watch.is_guarded else None,
        "thrown_tokens": watch.thrown_tokens if watch.is_guarded else None,
    }
    of_run = {name: row.get(name) for name in OF_RUN} if row is not None else dict.fromkeys(OF_RUN)
    for name in ("stereo", "geometry"):  # none right of none judged is no figure
        if row is not None and row.get(f"{name}_judged") == 0:
            of_run[f"{name}_right"] = None
    return figures | of_run


def with_ratios(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with ratios to the first one."""
    return [
        {
            **row,
            "time_ratio": quotient(row["seconds"], rows[0]["seconds"]),
            "speed_ratio": quotient(row["tokens_a_second"], rows[0]["tokens_a_second"]),
        }
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class LaneTime:
    """``elapsed_s`` is of the whole lane so far: loading, writing, checking."""

    watch: LaneWatch
    elapsed_s: float
    has_ended: bool

    @property
    def besides_s(self) -> float:
        """What was not writing."""
        return max(0.0, self.elapsed_s - self.watch.counted.seconds)


def all_seconds_left(lanes: Sequence[LaneTime]) -> float | None:
    """Of all lanes together; None before any of them has a pace.

    What comes besides writing, and the pace of a lane that has not begun, are those of the other lanes on average.
    """
    done = [lane for lane in lanes if lane.has_ended and lane.watch.finished is not None]
    besides_s = mean([lane.besides_s for lane in done]) if done else 0.0
    left_s = {id(lane): lane.watch.seconds_left for lane in lanes if not lane.has_ended}
    paced = [lane.watch.counted.seconds + (left_s.get(id(lane)) or 0.0) for lane in lanes if lane.watch.has_pace]
    if not paced:
        return None
    total = 0.0
    for lane in lanes:
        if lane.has_ended:
            continue
        if not lane.watch.has_pace:
            total += mean(paced) + besides_s
        else:
            left = left_s[id(lane)]
            total += max(0.0, besides_s - lane.besides_s) if left is None else left + besides_s
    return total


def first_divergence(first: LaneWatch, other: LaneWatch, sample: int) -> Divergence | None:
    """Where the sample's two texts first differ; None where they are the same."""
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
    return Divergence(place, pieces[0], pieces[1], atom)
