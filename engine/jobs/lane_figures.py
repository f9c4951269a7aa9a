"""Figures of lanes side by side: each one's own, ratios to the first, the time left, where texts first differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine.figures.statistics import quotient
from engine.inspection.struck import struck_words
from engine.inspection.tries import ThrownText, blocks_thrown
from engine.jobs.lane import LaneWatch
from engine.lp_records import lp_record, split_cleanup
from engine.text.blocks import CUT_KINDS
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
        guarded, shaped = is_guarded(watch), is_shaped(watch)
        first = rows[0]["seconds"] if rows else watch.seconds or None
        rows.append(
            {
                "seconds": watch.seconds or None,
                "tokens": watch.tokens,
                "tokens_a_second": tokens_a_second(watch) or None,
                "forced_share": quotient(watch.forced_tokens, watch.tokens),
                "forward_passes": watch.forward_passes or None,
                "redrawn_blocks": watch.redrawn.total() if guarded and not shaped else None,
                "dead_ends": watch.dead_ends if shaped else None,
                "struck_tokens": watch.struck_tokens if shaped else None,
                "thrown_tokens": watch.thrown_tokens if guarded else None,
                **_run_figures(of_run or {}),
                "time_ratio": quotient(watch.seconds or None, first),
            }
        )
    return rows


def _run_figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of its run; right ones where none was judged are no figure."""
    no_figure = {f"{name}_right" for name in ("stereo", "geometry") if row.get(f"{name}_judged") == 0}
    return {name: None if name in no_figure else row.get(name) for name in OF_RUN}


def is_guarded(watch: LaneWatch) -> bool:
    return not watch.is_served and lp_record(split_cleanup(watch.plan.plan.lp)[0]).is_guarded


def is_shaped(watch: LaneWatch) -> bool:
    return not watch.is_served and lp_record(split_cleanup(watch.plan.plan.lp)[0]).asks_tokens


def tokens_a_second(watch: LaneWatch) -> float:
    return watch.tokens / watch.seconds if watch.seconds > 0 else 0.0


def struck_so_far(watch: LaneWatch, sample: int) -> dict[int, str]:
    """By position of the sample's tokens, what ``shaped`` struck there and why."""
    aligned = watch.alignment(sample)
    if aligned is None or watch.reader is None:
        return {}
    struck = dict(watch.texts[sample].struck)
    return struck_words(struck, aligned, watch.molecule_of(sample), watch.reader.tokenizer, watch.reader.form)


def thrown_texts(watch: LaneWatch, sample: int) -> list[ThrownText]:
    """The sample's tries that a guard threw away so far."""
    if watch.reader is None:
        return []
    decode = watch.reader.tokenizer.decode
    return [
        ThrownText(blocks_thrown(back.block, back.reason.atoms), back.reason.check, decode(ids))
        for back, ids in watch.texts[sample].thrown
    ]


def tally(watch: LaneWatch, shown: int) -> dict[str, int]:
    """Over all ended samples, and the shown one as far as it goes: ``blocks``, of these ``junk`` and ``cut`` ones, and
    the ``drift`` of the ``known`` ones, positive where positions were left over."""
    blocks = [block for sample in watch.answered for block in sample.blocks]
    if watch.texts[shown].answer is None and (aligned := watch.alignment(shown)) is not None:
        blocks += aligned.blocks
    drifts = [block.drift for block in blocks if block.drift is not None]
    return {
        "blocks": len(blocks),
        "junk": sum(bool(block.junk_text) for block in blocks),
        "cut": sum(not CUT_KINDS.isdisjoint(block.kinds) for block in blocks),
        "drift": sum(drifts),
        "known": len(drifts),
    }


def atom_being_written(watch: LaneWatch, sample: int) -> int | None:
    """The atom that the last token belongs to; None when the sample has ended."""
    aligned = watch.alignment(sample)
    if aligned is None or watch.texts[sample].answer is not None:
        return None
    return next((row.block for row in reversed(aligned.rows) if row.pos is not None and row.block >= 0), None)


def share_written(watch: LaneWatch) -> float:
    """The share of the expected tokens, by the templates' lengths; 1 at the end."""
    if len(watch.answered) == watch.samples:
        return 1.0
    if watch.reader is None:  # the tokenizer is not known yet
        return 0.0
    generations, done = watch.plan.plan.generations, 0
    for sample, text in watch.texts.items():
        tokens = watch.template_tokens[sample // generations]
        done += tokens if text.answer is not None else min(tokens, len(text.ids))
    return min(0.99, done / (sum(watch.template_tokens) * generations))


def seconds_left(lanes: Sequence[tuple[LaneWatch, float, bool]]) -> float | None:
    """Of all lanes together, by what they took so far for the tokens so far; None before there is a pace.

    Each comes with its seconds of loading, writing and checking, and whether it has ended.
    """
    share = sum(1.0 if has_ended else share_written(watch) for watch, _, has_ended in lanes) / len(lanes)
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
