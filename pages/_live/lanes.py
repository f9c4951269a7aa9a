"""What a lane shows while it is written and after: tokens, counters, a Stop button; and how far all lanes are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import one_line
from engine.figures.queue_words import waiting_words
from engine.figures.words import capitalised, counted, percent
from engine.inspection.tries import checks_by_block, redrawn_words
from engine.jobs.lane import LaneWatch
from engine.questions.live_lanes import seconds_left
from engine.text.align import Alignment
from engine.text.generated import mode_of
from pages._live import session
from pages._live.session import Running
from pages._shared.components.token_strip import Chip, Mark, selected_index, token_strip
from pages._shared.errors import escape_markdown
from pages._shared.words import HYPOTHETICAL_HELP, signed, unbroken

STRIP_PX, DONE_STRIP_PX = 300, 190
_MARKS: dict[str, Mark] = {"junk": "junk", "cut": "closed"}
_JUNK = "junk: not part of the three numbers"
_ATOM, _PICKS = "live_atom", "live_picks"
COUNTS_HELP = (
    "Tokens and passes are of all answers so far, with the token that ends each, which a strip does not show. "
    "Drift: the template's positions for numbers minus the tokens that the numbers need, over the blocks whose need is "
    "known. Positive: surplus positions fill with junk. Negative: missing positions cut the number."
)

GUARD_HELP = (
    "The guard checks each block as it closes. A block that makes the molecule wrong is thrown away, and the model "
    "draws it again: for a bond length (bonds), an angle (angles), atoms too close (clash), a bent plane (flat) or the "
    "wrong hand or side (stereo). The tokens thrown away are not among those counted above."
)
_NOTHING: Mapping[int, Sequence[str]] = MappingProxyType({})
Likely: TypeAlias = Mapping[int, float | None]
NO_TINT: Likely = MappingProxyType({})


def lane_columns(lanes: list[Running]) -> list[DeltaGenerator]:
    """A single lane gets half of the width: a wider strip would be hard to follow."""
    with st.container(key="lanes"):  # for the style sheet: on narrow screens lanes take two rows
        return st.columns(max(len(lanes), 2))


def progress(lanes: list[Running]) -> None:
    """Of all lanes together."""
    open_ = [lane for lane in lanes if not lane.seen.has_ended]
    share = sum(1.0 if lane.seen.has_ended else lane.watch.share_written for lane in lanes) / len(lanes)
    st.progress(share, text=progress_words(lanes))
    st.button(
        "Stop all",
        icon=":material/stop:",
        key="stop_all",
        on_click=session.stop,
        args=(open_,),
        disabled=not open_,
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
        parts.append(f"about {left_s:,.0f} s left for all lanes")
    return " · ".join(parts)


def heading(lane: Running) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):  # columns would cut the label off
        st.markdown(f"**{escape_markdown(lane.title)}** :gray[:small[{unbroken(state_words(lane))}]]", width="stretch")
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
        st.error(escape_markdown(capitalised(lane.seen.error)), icon=":material/error:")


def state_words(lane: Running) -> str:
    seen = lane.seen
    if seen.state == "waiting":
        return waiting_words(seen.ahead).capitalize()
    if seen.state == "stopped" and not lane.was_stopped:
        return f"Stopped: {escape_markdown(seen.note)}"
    if seen.state == "done":
        return f"Done in {lane.watch.seconds:.2f} s"
    if seen.state == "running":
        return f"{escape_markdown((one_line(seen.note) or 'starting').capitalize())} …"
    return "Stopping …" if seen.state == "stopping" else seen.state.capitalize()


def counters(lane: Running, shown: int) -> None:
    """Pace, forced share and passes; junk, cut blocks and drift so far."""
    watch = lane.watch
    if not watch.tokens:
        return
    tally = watch.tally(shown)
    blocks = tally["blocks"]
    is_position = watch.reader is not None and mode_of(watch.reader.lp) == "position"
    st.markdown(
        unbroken(
            f"**{watch.tokens_a_second:,.0f}** tokens/s · **{watch.tokens:,}** tokens{of_tokens(watch)} · "
            f"{percent(watch.forced_tokens / watch.tokens)} forced · {watch.forward_passes:,} passes  \n"
            f":violet[junk **{tally['junk']}**] · :red[cut **{tally['cut']}**] of {counted(blocks, 'block')} · "
            f"{'' if is_position else 'hypothetical '}drift {signed(tally['drift'])}"
            + (f" (known in {tally['known']} of them)" if tally["known"] < blocks else "")
        ),
        help=COUNTS_HELP if is_position else f"{COUNTS_HELP} {HYPOTHETICAL_HELP}",
    )
    if watch.is_guarded:
        redrawn = watch.redrawn
        reasons = ", ".join(f"{count:,} {check}" for check, count in redrawn.most_common())
        st.markdown(
            f"blocks drawn anew **{redrawn.total():,}** {'time' if redrawn.total() == 1 else 'times'}"
            + (f" ({reasons})" if reasons else "")
            + f" · **{watch.thrown_tokens:,}** tokens thrown away",
            help=GUARD_HELP,
        )


def of_tokens(watch: LaneWatch) -> str:
    """What a lane's count of tokens has beside the tokens of its strip."""
    if watch.samples > 1:
        return " in all"
    return " with the end" if any(answer.stop_reason == "end" for answer in watch.answered) else ""


def chips_in(lane: Running, shown: int, wrong: Collection[int] = (), p_raw: Likely = NO_TINT) -> list[Chip]:
    """Numbers of ``wrong`` atoms are marked; ``p_raw``, by position, tints the chips."""
    aligned = lane.watch.alignment(shown)
    redrawn = checks_by_block((one.blocks, one.check) for one in lane.watch.thrown(shown))
    return [] if aligned is None else chips_of(aligned, wrong, redrawn, p_raw)[0]


def strip(lane: Running, shown: int, chips: Sequence[Chip]) -> None:
    """The lane's tokens; the selected one highlights its atom in 2D and in 3D."""
    aligned = lane.watch.alignment(shown)
    token_strip(
        chips,
        stream=f"{lane.name}-{shown}",
        key=_key(lane),
        label=f"Lane {lane.number}",
        max_height=STRIP_PX if not lane.seen.has_ended else DONE_STRIP_PX,
        legend=False,
        details=lane.seen.has_ended,
        copy=lane.seen.has_ended,
        follow=not lane.seen.has_ended,
        text="" if aligned is None else aligned.text,
    )


def _key(lane: Running) -> str:
    return f"lane_{lane.number}"


def picked_atom(shown: int) -> int | None:
    """The atom of the last selected token, of any lane; read before the strips are drawn again."""
    known: dict[str, int | None] = st.session_state.setdefault(_PICKS, {})
    for lane in session.lanes():
        aligned = lane.watch.alignment(shown)
        if aligned is None or _key(lane) not in st.session_state:
            continue
        chips, atoms = chips_of(aligned)
        picked = selected_index(st.session_state[_key(lane)], chips)
        if known.get(_key(lane)) != picked:
            known[_key(lane)] = picked
            st.session_state[_ATOM] = None if picked is None else atoms[picked]
    atom: int | None = st.session_state.get(_ATOM)
    return atom


def pick_atom(atom: int | None) -> None:
    """Of a click into the drawing or into a conformer."""
    st.session_state[_ATOM] = atom


def forget_picks() -> None:
    for name in (_ATOM, _PICKS):
        st.session_state.pop(name, None)


def chips_of(
    aligned: Alignment,
    wrong: Collection[int] = (),
    redrawn: Mapping[int, Sequence[str]] = _NOTHING,
    p_raw: Likely = NO_TINT,
) -> tuple[list[Chip], list[int | None]]:
    """The written tokens, and the atom that each belongs to. ``redrawn``: by block, why its tries were thrown away."""
    chips = []
    for row in aligned.rows:
        if row.pos is not None:
            is_number = row.text_role == "FREE"
            failed = redrawn.get(row.block) if is_number else None
            of_number: Mark = "wrong" if is_number and row.block in wrong else "redrawn" if failed else ""
            mark = _MARKS.get(row.mark) or of_number
            note = _JUNK if row.mark == "junk" else redrawn_words(failed) if failed else ""
            chips.append(Chip(
                row.piece, row.token_id, row.text_role or "", row.forced, mark,
                row.text_block if row.text_block >= 0 else None, row.start, row.end, note,
                row.block if row.block >= 0 else None, p_raw.get(row.pos),
            ))  # fmt: skip
    return chips, [chip.atom for chip in chips]
