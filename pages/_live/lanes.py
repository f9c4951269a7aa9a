"""What a lane shows while it is written and after: tokens, counters, a Stop button; and how far all lanes are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import streamlit as st

from engine.errors import one_line
from engine.figures.queue_words import waiting_words
from engine.figures.words import agreeing, capitalised, counted, fixed, percent, signed, speed
from engine.inspection.atoms import rows_of_sample, token_rows, tokens_of_sample, worst_first
from engine.inspection.sample import Inspected
from engine.jobs.lane import LaneWatch
from engine.jobs.lane_figures import (
    is_guarded,
    is_shaped,
    seconds_left,
    share_written,
    struck_so_far,
    tally,
    tokens_a_second,
)
from engine.models.loading import sized
from engine.text.generated import mode_of
from pages._kit import branching
from pages._kit.components.atom_view import atom_view, rows_under, view_rows
from pages._kit.errors import escaped
from pages._kit.inspected import open_store
from pages._kit.words import HYPOTHETICAL_HELP, unbroken
from pages._live import session
from pages._live.conformer import in_view
from pages._live.session import Running

Shown = TypeVar("Shown")
ROWS_PX = 420
_ATOM, _TOKEN = "live_atom", "live_token"
COUNTS_HELP = (
    "MB: the most memory that the process, or the GPU, has taken so far. "
    "Tokens and passes are of all answers so far, with the token that ends each, which the rows do not show. "
    "Drift: the template's positions for numbers minus the tokens that the numbers need, over the blocks whose need is "
    "known. Positive: surplus positions fill with junk. Negative: missing positions cut the number."
)

CHECKS_HELP = (
    "In brackets the check that failed: a bond length (bonds), an angle (angles), atoms too close (clash), a bent "
    "plane (flat), the wrong hand or side (stereo). The tokens thrown away are not among those counted above."
)
GUARD_HELP = f"A block that makes the molecule wrong is thrown away, and the model draws it again. {CHECKS_HELP}"
SHAPED_HELP = (
    "Under shaped a token comes only if it leaves the atom a right place. Struck: likely tokens that leave none. A "
    "folded corner marks where; hover to see which. Dead end: no token was left, so the text went back to an earlier "
    f"block. {CHECKS_HELP}"
)


def level(lanes: Sequence[Shown], *parts: Callable[[Shown], object]) -> None:
    """A column for each lane. The style sheet has each part of all lanes at the same height, a single lane at half of
    the width, and lanes to be swiped on a phone."""
    with st.container(key="lanes"):
        columns = st.columns(len(lanes))
    for column, lane in zip(columns, lanes, strict=True):
        for part in parts:
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
        title(lane.title, state_words(lane), lane.model, lane.watch.run_row if lane.seen.state == "done" else None)
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


def machine_words(row: Mapping[str, Any]) -> str:
    """Where a run of this row was written, as far as it is known: ``cpu, 1 thread, float32``"""
    threads = row.get("threads")
    return ", ".join(filter(None, (row.get("device"), threads and counted(threads, "thread"), row.get("dtype"))))


def time_words(seconds: float, first: float | None = None) -> str:
    """Seconds, and how much faster than lane 1, where its seconds are there. The model's size is in the page's line."""
    return f"{fixed(seconds, 2)} s" + (f" · {speed(seconds / first, than='lane 1')}" if first else "")


def title(name: str, words: str, model: str, row: Mapping[str, Any] | None) -> None:
    """``row``: where the words are times. With a ratio of speed stand the model's size and the machine."""
    about = "Decoding time, from prompt to last token, of {} on {}."
    help_ = about.format(escaped(sized(model)), escaped(machine_words(row))) if row else None
    st.markdown(f"**{escaped(name)}** {unbroken(words)}", width="stretch", help=help_)


def state_words(lane: Running) -> str:
    seen = lane.seen
    if seen.state == "waiting":
        return waiting_words(seen.ahead).capitalize()
    if seen.state == "stopped" and not lane.was_stopped:
        return f"Stopped: {escaped(seen.note)}"
    if seen.state == "done":
        first = session.lanes()[0]
        is_test = lane.number > 1 and first.seen.state == "done"
        return time_words(lane.watch.seconds, first.watch.seconds if is_test else None)
    if seen.state == "running":
        return f"{escaped((one_line(seen.note) or 'starting').capitalize())} …"
    return "Stopping …" if seen.state == "stopping" else seen.state.capitalize()


def counters(lane: Running, shown: int) -> None:
    """Machine and pace, forced share and passes; junk, cut blocks and drift so far."""
    watch = lane.watch
    if not watch.tokens:
        return
    counts = tally(watch, shown)
    blocks = counts["blocks"]
    memory = "" if watch.is_served else f" · **{fixed(watch.memory_mb, 0)}** MB"
    passes = "" if watch.is_served else f" · {watch.forward_passes:,} passes"
    drift, help = "hypothetical drift", f"{COUNTS_HELP} {HYPOTHETICAL_HELP}"
    if watch.reader is not None and mode_of(watch.reader.lp) == "position":
        drift, help = "drift", COUNTS_HELP
    st.markdown(
        unbroken(
            f"{escaped(machine_words(watch.run_row))} · **{fixed(tokens_a_second(watch), 0)}** tokens/s{memory}  \n"
            f"**{watch.tokens:,}** tokens · {percent(watch.forced_tokens / watch.tokens)} forced{passes}  \n"
            f":red[junk **{counts['junk']}**] · :orange[cut **{counts['cut']}**] of {counted(blocks, 'block')} · "
            f"{drift} {_drift_words(counts)}"
        ),
        help=help,
    )
    if is_guarded(watch):
        st.markdown(_guard_words(watch), help=SHAPED_HELP if is_shaped(watch) else GUARD_HELP)


def _drift_words(counts: Mapping[str, int]) -> str:
    if counts["known"] < counts["blocks"]:
        return f"{signed(counts['drift'])} in {counts['known']} of them" if counts["known"] else "unknown"
    return signed(counts["drift"])


def _guard_words(watch: LaneWatch) -> str:
    """``struck **31** · dead ends **2** (1 bonds, 1 clash) · **45** tokens thrown away``"""
    times = watch.redrawn.total()
    counts = f"blocks redrawn **{times:,}** {agreeing(times, 'time', 'times')}"
    if is_shaped(watch):
        counts = f"struck **{watch.struck_tokens:,}** · dead ends **{watch.dead_ends:,}**"
    if watch.redrawn:
        reasons = ", ".join(f"{count:,} {check}" for check, count in watch.redrawn.most_common())
        counts += f" ({reasons})"
    return f"{counts} · **{watch.thrown_tokens:,}** tokens thrown away"


def written(lane: Running, shown: int) -> None:
    """The lane's text as far as it is written."""
    tokens = token_rows(lane.watch.alignment(shown), struck=struck_so_far(lane.watch, shown))
    if tokens:
        is_open = lane.watch.texts[shown].answer is None
        atom_view([], text=tokens, key=f"lane_{lane.number}", label=f"Lane {lane.number}", follow=is_open)


def atoms(lane: Running, shown: int, seen: Inspected | None) -> None:
    """Once it is stored, with what is known of it, atom by atom, the worst first."""
    if seen is None:
        written(lane, shown)
        return
    seen = in_view(f"{lane.number}", seen)
    tokens = tokens_of_sample(seen, seen.steps, struck_so_far(lane.watch, shown))
    rows = view_rows(worst_first(rows_of_sample(seen, seen.steps, seen.estimates)), tokens)
    run_id, sample_id, column = st.session_state.get(_TOKEN, ("", 0, None))
    is_here = (run_id, sample_id) == (seen.run.run_id, seen.sample["sample_id"])
    at = branching.position_of(seen, column) if is_here else None
    branch = branching.chosen_branch(open_store(), seen, draws=True)
    if branch is not None:
        of_branch = rows_of_sample(branch, branch.steps, branch.estimates)
        rows = rows_under(rows, view_rows(of_branch, tokens_of_sample(branch, branch.steps), "branch"))
    atom_view(
        rows,
        text=tokens,
        key=f"lane_{lane.number}",
        label=f"Lane {lane.number}",
        atom=picked_atom(),
        on_pick=lambda atom, column: _pick(seen, atom, column),
        max_height=ROWS_PX,
    )
    branching.show(seen, at)  # below, so that a click moves no row


def _pick(seen: Inspected, atom: int | None, column: int | None) -> None:
    """A click on a token also asks for its alternatives."""
    pick_atom(atom)
    st.session_state[_TOKEN] = seen.run.run_id, seen.sample["sample_id"], column
    branching.ask(seen, branching.position_of(seen, column))


def picked_atom() -> int | None:
    """Of any view of any lane."""
    atom: int | None = st.session_state.get(_ATOM)
    return atom


def pick_atom(atom: int | None) -> None:
    """Of a click into the drawing, a conformer or a row; None clears it."""
    st.session_state[_ATOM] = atom
