"""What a lane shows while it is written and after: tokens, counters, a Stop button; and how far all lanes are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

import streamlit as st

from engine.errors import one_line
from engine.figures.queue_words import waiting_words
from engine.figures.words import capitalised, counted, fixed, percent, signed
from engine.inspection.atoms import atom_rows, rows_of_sample, token_rows, tokens_of_sample, worst_first
from engine.inspection.sample import Inspected
from engine.inspection.tries import checks_by_block, redrawn_words
from engine.jobs.lane import LaneWatch
from engine.jobs.lane_figures import (
    is_guarded,
    is_shaped,
    seconds_left,
    share_written,
    struck_so_far,
    tally,
    thrown_texts,
    tokens_a_second,
)
from engine.text.generated import mode_of
from pages._kit.components.atom_view import ViewRow, atom_view, view_rows
from pages._kit.errors import escaped
from pages._kit.words import HYPOTHETICAL_HELP, unbroken
from pages._live import session
from pages._live.conformer import in_view
from pages._live.session import Running

Shown = TypeVar("Shown")
ROWS_PX = 420
_ATOM = "live_atom"
COUNTS_HELP = (
    "Tokens and passes are of all answers so far, with the token that ends each, which the rows do not show. "
    "Drift: the template's positions for numbers minus the tokens that the numbers need, over the blocks whose need is "
    "known. Positive: surplus positions fill with junk. Negative: missing positions cut the number."
)

GUARD_HELP = (
    "The guard checks each block as it closes. A block that makes the molecule wrong is thrown away, and the model "
    "draws it again: for a bond length (bonds), an angle (angles), atoms too close (clash), a bent plane (flat) or the "
    "wrong hand or side (stereo). The tokens thrown away are not among those counted above."
)
SHAPED_HELP = (
    "Under shaped a token comes only if it leaves the atom a right place. Struck: likely tokens that leave none. A "
    "folded corner marks where; hover to see which. Dead end: no token was left, so the text went back to an earlier "
    "block; in brackets the check that left no place: a bond length (bonds), an angle (angles), atoms too close "
    "(clash), a plane (flat), a hand or side (stereo). The tokens thrown away are not among those counted above."
)


def level(lanes: Sequence[Shown], *parts: Callable[[Shown], object]) -> None:
    """Each part of all lanes at the same height. A single lane gets half of the width."""
    for number, part in enumerate(parts):
        with st.container(key=f"lanes-{number}"):  # for the style sheet: on narrow screens lanes take two rows
            columns = st.columns(max(len(lanes), 2))
        for column, lane in zip(columns, lanes, strict=False):
            with column.container(gap="xsmall"):
                part(lane)


def progress(lanes: list[Running]) -> None:
    """Of all lanes together."""
    open_ = [lane for lane in lanes if not lane.seen.has_ended]
    share = sum(1.0 if lane.seen.has_ended else share_written(lane.watch) for lane in lanes) / len(lanes)
    st.progress(share, text=progress_words(lanes))
    st.button(
        "Stop all", icon=":material/stop:", key="stop_all", on_click=session.stop, args=(open_,), disabled=not open_
    )


def progress_words(lanes: list[Running]) -> str:
    """``1 of 3 lanes done · 130 of 300 answers written · about 40 s left for all lanes``"""
    done = sum(lane.seen.has_ended for lane in lanes)
    answers = sum(lane.watch.samples for lane in lanes)
    written = sum(len(lane.watch.answered) for lane in lanes)
    left_s = seconds_left([(lane.watch, lane.seen.elapsed_s, lane.seen.has_ended) for lane in lanes])
    parts = [f"{done} of {len(lanes)} lanes done"]
    if answers > len(lanes):
        parts.append(f"{written:,} of {answers:,} answers written")
    if left_s is not None and done < len(lanes):
        parts.append(f"about {fixed(left_s, 0)} s left for all lanes")
    return " · ".join(parts)


def heading(lane: Running) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):  # columns would cut the label off
        st.markdown(f"**{escaped(lane.title)}** :gray[:small[{unbroken(state_words(lane))}]]", width="stretch")
        if not lane.seen.has_ended:
            st.button(
                "Stop",
                key=f"stop_{lane.number}",
                on_click=session.stop,
                args=([lane],),
                disabled=lane.seen.state == "stopping",
                help=f"Stop lane {lane.number}",
            )
    if lane.seen.state == "failed":
        st.error(escaped(capitalised(lane.seen.error)), icon=":material/error:")


def state_words(lane: Running) -> str:
    seen = lane.seen
    if seen.state == "waiting":
        return waiting_words(seen.ahead).capitalize()
    if seen.state == "stopped" and not lane.was_stopped:
        return f"Stopped: {escaped(seen.note)}"
    if seen.state == "done":
        return f"Done in {fixed(lane.watch.seconds, 2)} s"
    if seen.state == "running":
        return f"{escaped((one_line(seen.note) or 'starting').capitalize())} …"
    return "Stopping …" if seen.state == "stopping" else seen.state.capitalize()


def counters(lane: Running, shown: int) -> None:
    """Pace, forced share and passes; junk, cut blocks and drift so far."""
    watch = lane.watch
    if not watch.tokens:
        return
    counts = tally(watch, shown)
    blocks = counts["blocks"]
    is_position = watch.reader is not None and mode_of(watch.reader.lp) == "position"
    st.markdown(
        unbroken(
            f"**{fixed(tokens_a_second(watch), 0)}** tokens/s · **{watch.tokens:,}** tokens{of_tokens(watch)} · "
            f"{percent(watch.forced_tokens / watch.tokens)} forced · {watch.forward_passes:,} passes  \n"
            f":red[junk **{counts['junk']}**] · :orange[cut **{counts['cut']}**] of {counted(blocks, 'block')} · "
            f"{'' if is_position else 'hypothetical '}drift {_drift_words(counts)}"
        ),
        help=COUNTS_HELP if is_position else f"{COUNTS_HELP} {HYPOTHETICAL_HELP}",
    )
    if is_guarded(watch):
        st.markdown(_guard_words(watch), help=SHAPED_HELP if is_shaped(watch) else GUARD_HELP)


def _drift_words(counts: Mapping[str, int]) -> str:
    if counts["known"] < counts["blocks"]:
        return f"{signed(counts['drift'])} in {counts['known']} of them" if counts["known"] else "unknown"
    return signed(counts["drift"])


def _guard_words(watch: LaneWatch) -> str:
    """``struck **31** · dead ends **2** (1 bonds, 1 clash) · **45** tokens thrown away``"""
    redrawn = watch.redrawn
    reasons = ", ".join(f"{count:,} {check}" for check, count in redrawn.most_common())
    counts = f"blocks redrawn **{redrawn.total():,}** {'time' if redrawn.total() == 1 else 'times'}"
    if is_shaped(watch):
        counts = f"struck **{watch.struck_tokens:,}** · dead ends **{watch.dead_ends:,}**"
    return counts + (f" ({reasons})" if reasons else "") + f" · **{watch.thrown_tokens:,}** tokens thrown away"


def of_tokens(watch: LaneWatch) -> str:
    """What a lane's count of tokens has next to the tokens of its rows."""
    if watch.samples > 1:
        return " in all"
    return " (end token included)" if any(answer.stop_reason == "end" for answer in watch.answered) else ""


def atoms(lane: Running, shown: int, seen: Inspected | None = None) -> None:
    """The lane's text atom by atom, as it is written; once it is stored, with what is known of it, the worst first."""
    aligned, text = lane.watch.alignment(shown), lane.watch.texts.get(shown)
    struck = struck_so_far(lane.watch, shown)
    if seen is not None:
        stored_atoms(in_view(f"{lane.number}", seen), struck, key=_key(lane), label=f"Lane {lane.number}")
    elif aligned is not None and text is not None and lane.watch.reader is not None:
        elements, is_open = lane.watch.molecule_of(shown).elements, text.answer is None
        tried = checks_by_block((thrown.blocks, thrown.check) for thrown in thrown_texts(lane.watch, shown))
        redrawn = {block: redrawn_words(checks) for block, checks in tried.items()}
        blocks, form = list(map(asdict, aligned.blocks)), lane.watch.reader.form
        rows = atom_rows(aligned, elements, blocks, redrawn=redrawn, form=form, is_open=is_open)
        _rows(view_rows(rows, token_rows(aligned, struck=struck)), _key(lane), f"Lane {lane.number}", follow=is_open)


def stored_atoms(seen: Inspected, struck: Mapping[int, str] | None = None, *, key: str, label: str) -> None:
    """``struck``: by position, where it is known of all tokens; else of kept steps alone."""
    rows = worst_first(rows_of_sample(seen, seen.steps, seen.estimates))
    _rows(view_rows(rows, tokens_of_sample(seen, seen.steps, struck)), key, label)


def _rows(rows: list[ViewRow], key: str, label: str, *, follow: bool = False) -> None:
    atom_view(
        rows,
        key=key,
        label=label,
        atom=picked_atom(),
        on_pick=lambda atom, _: pick_atom(atom),
        max_height=ROWS_PX,
        follow=follow,
    )


def _key(lane: Running) -> str:
    return f"lane_{lane.number}"


def picked_atom() -> int | None:
    """Of any view of any lane."""
    atom: int | None = st.session_state.get(_ATOM)
    return atom


def pick_atom(atom: int | None) -> None:
    """Of a click into the drawing, a conformer or a row; None clears it."""
    st.session_state[_ATOM] = atom
