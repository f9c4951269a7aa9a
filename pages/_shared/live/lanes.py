"""Lanes side by side while they are written: each with its text as chips, its counters, and a way to stop it."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import one_line
from engine.lp.catalogue import split_cleanup
from engine.text.align import Alignment
from engine.text.generated import mode_of
from pages._shared.components.token_strip import Chip, Mark, selected_index, token_stream
from pages._shared.errors import escape_markdown
from pages._shared.live import session
from pages._shared.live.session import Running

TICK_S = 0.25
STRIP_PX = 300
_MARKS: dict[str, Mark] = {"junk": "junk", "cut": "cut"}
_NOTES = {
    "junk": "junk: no part of the three numbers",
    "cut": "cut: the block was closed by force behind it",
}
_ATOM, _PICKS = "live_atom", "live_picks"
DRIFT_HELP = (
    "Drift: positions that the template has for numbers, less the tokens that they need. Positive positions are left "
    "over and fill with junk, negative ones are missing and cut the number. Blocks whose need nobody knows count as 0."
)


@st.fragment(run_every=TICK_S)
def show_running(shown: int) -> None:
    """Draw all lanes, by themselves until the last has ended. ``shown`` is the sample whose text is in the strips."""
    goes_on = session.poll()
    lanes = session.lanes()
    _progress(lanes)
    for column, one in zip(lane_columns(lanes), lanes, strict=False):
        with column, st.container(border=True):
            heading(one)
            counters(one, shown)
            strip(one, shown)
    if not goes_on:
        st.rerun()  # the whole page: results take the place of what was going on


def lane_columns(lanes: list[Running]) -> list[DeltaGenerator]:
    """A lone lane has half of the width: a strip over all of it would be hard to follow."""
    with st.container(key="lanes"):  # for the style sheet: lanes that have no room stand in two rows
        return st.columns(max(len(lanes), 2))


def _progress(lanes: list[Running]) -> None:
    open_ = [one for one in lanes if not one.seen.ended]
    left, right = st.columns([5, 1], vertical_alignment="center")
    share = sum(1.0 if one.seen.ended else one.watch.share_written for one in lanes) / len(lanes)
    left.progress(share, text=f"{len(lanes) - len(open_)} of {len(lanes)} lanes have ended")
    right.button(
        "Stop all",
        icon=":material/stop:",
        key="stop_all",
        on_click=session.stop,
        args=(open_,),
        disabled=not open_,
        width="stretch",
    )


def heading(one: Running) -> None:
    """Its name, where it is, and how to stop it."""
    with st.container(horizontal=True, vertical_alignment="center"):  # columns would cut the button's word off
        st.markdown(f"**{escape_markdown(one.title)}**", width="stretch")
        if not one.seen.ended:
            st.button(
                "Stop",
                key=f"stop_{one.number}",
                on_click=session.stop,
                args=([one],),
                disabled=one.seen.cancelling,
                help=f"Stop lane {one.number}",
            )
    st.caption(state_words(one))
    if one.seen.state == "failed":
        st.error(escape_markdown(one.seen.error[:1].upper() + one.seen.error[1:]), icon=":material/error:")


def state_words(one: Running) -> str:
    """Where the lane is, as Markdown."""
    seen = one.seen
    if seen.state == "queued":
        return f"Queued: {seen.position} ahead of it" if seen.position > 1 else "Queued: it is next"
    if seen.state == "cancelled":
        return "Stopped" if one.was_stopped else f"Stopped: {escape_markdown(seen.progress.note)}"
    if seen.state == "failed":
        return "Failed"
    if seen.state == "done":
        return f"Written in {one.watch.counted.seconds:.2f} s"
    if seen.cancelling:
        return "Stopping …"
    note = one_line(seen.progress.note) or "starting"
    left = one.watch.seconds_left
    return escape_markdown(note.capitalize()) + (f" · {left:.0f} s left" if left is not None else " …")


def counters(one: Running, shown: int) -> None:
    """Pace, forced share and passes; junk, cut blocks and drift so far."""
    watch, counted = one.watch, one.watch.counted
    if not counted.tokens:
        return
    tally = watch.tally(shown)
    is_position = watch.opened is not None and mode_of(split_cleanup(watch.opened.lp)[0]) == "position"
    drift = f"{tally.drift:+d}".replace("-", "−")
    st.markdown(
        f"**{watch.tokens_a_second:,.0f}** tokens/s · **{counted.tokens:,}** tokens · "
        f"{counted.forced_tokens / counted.tokens:.0%} forced · {counted.forward_passes:,} passes  \n"
        f":violet[junk **{tally.junk}**] · :red[cut **{tally.cut}**] of {tally.blocks} blocks · "
        + (f"drift {drift}" if is_position else f"a template would drift {drift}"),
        help=DRIFT_HELP,
    )


def strip(one: Running, shown: int) -> None:
    """Its text as chips; the one that is selected lights its atom in the drawing."""
    aligned = one.watch.alignment(shown)
    token_stream(
        [] if aligned is None else chips_of(aligned)[0],
        stream=f"{one.name}-{shown}",
        key=_key(one),
        label=f"Lane {one.number}",
        max_height=STRIP_PX,
        legend=False,
        details=one.seen.ended,
        copy=one.seen.ended,
        follow=not one.seen.ended,
        text="" if aligned is None else aligned.text,
    )


def _key(one: Running) -> str:
    return f"lane_{one.number}"


def picked_atom(shown: int) -> int | None:
    """The atom of the token that was selected last, in whichever lane; read before the strips are drawn again."""
    known: dict[str, int | None] = st.session_state.setdefault(_PICKS, {})
    for one in session.lanes():
        aligned = one.watch.alignment(shown)
        if aligned is None or _key(one) not in st.session_state:
            continue
        chips, atoms = chips_of(aligned)
        picked = selected_index(st.session_state[_key(one)], chips)
        if known.get(_key(one)) != picked:
            known[_key(one)] = picked
            st.session_state[_ATOM] = None if picked is None else atoms[picked]
    atom: int | None = st.session_state.get(_ATOM)
    return atom


def forget_picks() -> None:
    """What was selected in texts that are written anew."""
    for name in (_ATOM, _PICKS):
        st.session_state.pop(name, None)


def chips_of(aligned: Alignment) -> tuple[list[Chip], list[int | None]]:
    """The tokens that were written, and the atom that each belongs to."""
    rows = [row for row in aligned.rows if row.pos is not None]
    chips = [
        Chip(
            piece=row.piece,
            id=row.token_id,
            role=row.text_role or "",
            forced=row.forced,
            mark=_MARKS.get(row.mark, ""),
            block=row.text_block if row.text_block >= 0 else None,
            start=row.start,
            end=row.end,
            note=_NOTES.get(row.mark, ""),
        )
        for row in rows
    ]
    return chips, [row.block if row.block >= 0 else None for row in rows]
