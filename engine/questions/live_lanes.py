"""Figures of lanes side by side: each one's own, ratios to the first, the time left, where texts first differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine.figures.statistics import quotient
from engine.jobs.lane import LaneWatch
from engine.text.generated import first_difference

OF_RUN = (
    "samples passes decodes clean usable stereo_right geometry_right strain_kcal bad_blocks cut_blocks rmsd_ang "
    "rmsd_samples"
).split()


class Divergence(NamedTuple):
    """Where a lane's text first differs from the first lane's. ``atom`` is the template's, None outside of blocks."""

    pos: int
    first_piece: str  # "" where that text has ended
    piece: str
    atom: int | None


def lane_figures(lanes: Sequence[tuple[LaneWatch, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    """The rows of the table of lanes. Each comes with its row of ``runs``, None where it was not finished."""
    rows: list[dict[str, Any]] = []
    for watch, of_run in lanes:
        row = dict(of_run or {})
        for name in ("stereo", "geometry"):  # none right of none judged is no figure
            if row.get(f"{name}_judged") == 0:
                row[f"{name}_right"] = None
        figures = {
            "seconds": watch.seconds or None,
            "tokens": watch.tokens,
            "tokens_a_second": watch.tokens_a_second or None,
            "forced_share": quotient(watch.forced_tokens, watch.tokens),
            "forward_passes": watch.forward_passes,
            "redrawn_blocks": watch.redrawn.total() if watch.is_guarded else None,
            "thrown_tokens": watch.thrown_tokens if watch.is_guarded else None,
            **{name: row.get(name) for name in OF_RUN},
        }
        rows.append(figures)
        figures["time_ratio"] = quotient(figures["seconds"], rows[0]["seconds"])
        figures["speed_ratio"] = quotient(figures["tokens_a_second"], rows[0]["tokens_a_second"])
    return rows


def seconds_left(lanes: Sequence[tuple[LaneWatch, float, bool]]) -> float | None:
    """Of all lanes together, by what they took so far for the tokens so far; None before there is a pace.

    Each comes with its seconds of loading, writing and checking, and whether it has ended.
    """
    share = sum(1.0 if has_ended else watch.share_written for watch, _, has_ended in lanes) / len(lanes)
    return sum(elapsed_s for _, elapsed_s, _ in lanes) * (1 - share) / share if share > 0.01 else None


def first_divergence(first: LaneWatch, other: LaneWatch, sample: int) -> Divergence | None:
    """Where the sample's two texts first differ; None where they are the same."""
    texts = [first.texts[sample].ids, other.texts[sample].ids]
    pos = first_difference(*texts)
    aligned = other.alignment(sample)
    if pos is None or other.reader is None or aligned is None:
        return None
    atom = next((row.block for row in aligned.rows if row.pos == pos and row.block >= 0), None)
    first_piece, piece = (other.reader.tokenizer.piece(ids[pos]) if pos < len(ids) else "" for ids in texts)
    return Divergence(pos, first_piece, piece, atom)
