"""Commands that were started from a page: where each stands, what it said, how to stop it, and what it brought.

They are the server's, not a visitor's: who opens the page later, or in another tab, sees them too. A page shows those
that bring what it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from engine.errors import DriftscopeError
from engine.runner.background import GROUPS, Desk, Input, Snapshot, State, Task, desk
from engine.runner.said import Part
from engine.store.schema import RUN
from engine.store.store import Store
from pages._shared.compare import state
from pages._shared.errors import escape_markdown

TICK_S = 0.7
MOST_PARTS = 40
"""Parts that are named one by one."""
MOST_ENDED = 4
"""Ended tasks that are in sight; the others are folded away."""
GOES_ON = "; what is written can be gone on with"
_SEEN = "tasks seen at their end"
SYMBOLS: dict[State, str] = {
    "waiting": ":material/hourglass_empty:",
    "running": ":material/play_circle:",
    "stopping": ":material/pending:",
    "done": ":material/check_circle:",
    "failed": ":material/error:",
    "stopped": ":material/stop_circle:",
}


@dataclass(frozen=True, slots=True)
class What:
    """What a page's commands bring: its names, what is counted on the way, and how to get to it."""

    noun: str
    nouns: str
    counted: str
    is_own: Callable[[Task], bool]
    count: Callable[[Snapshot], int]
    link: Callable[[Store, Task, Snapshot], None]
    told: Callable[[Store, Snapshot], Iterable[str]] = lambda *_: ()  # more of what it brought, as Markdown
    goes_on: bool = False  # whether one that was stopped can be gone on with


def submit(title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> bool:
    """Hand a command in, and say so; False where it was not taken."""
    try:
        task = desk().submit(title, words, inputs, about=about)
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return False
    st.toast(f"{escape_markdown(task.title)}: in the queue", icon=":material/playlist_add_check:")
    return True


def show(store: Store, what: What | None = None) -> None:
    """Draw these tasks (those that bring runs without it), newest first; they tick while one is at work."""
    board, what = desk(), what or RUNS
    if not (told := _own(board, what)):
        return
    if _is_busy(told):
        _remember(told)  # the page that is drawn now shows what they brought
        _ticking(store, what)
    else:
        _draw(store, board, what)


@st.fragment(run_every=TICK_S)
def _ticking(store: Store, what: What) -> None:
    board = desk()
    told = _own(board, what)
    if _remember(told) or not _is_busy(told):
        st.rerun()  # there is something new, or the ticking ends
    _draw(store, board, what)


def _own(board: Desk, what: What) -> list[tuple[Task, Snapshot]]:
    return [(task, seen) for task, seen in board.tasks() if what.is_own(task)]


def _is_busy(told: Iterable[tuple[Task, Snapshot]]) -> bool:
    return any(not seen.has_ended for _, seen in told)


def _remember(told: Iterable[tuple[Task, Snapshot]]) -> bool:
    """Whether a task has ended since the last time."""
    known: set[int] = st.session_state.setdefault(_SEEN, set())
    new = {task.number for task, seen in told if seen.has_ended} - known
    known |= new
    return bool(new)


def _draw(store: Store, board: Desk, what: What) -> None:
    told = _own(board, what)
    ended = [one for one in told if one[1].has_ended]
    earlier = ended[MOST_ENDED:]
    for task, seen in told:
        if (task, seen) not in earlier:
            _task(store, board, what, task, seen)
    if earlier:
        with st.expander(f"{len(earlier)} earlier"):
            for task, seen in earlier:
                _task(store, board, what, task, seen)


def _task(store: Store, board: Desk, what: What, task: Task, seen: Snapshot) -> None:
    with st.container(border=True, key=f"task-{task.number}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            title = f"**{escape_markdown(task.title)}**"
            st.markdown(f"{SYMBOLS[seen.state]} {title} · {_standing(seen, what)}", width="stretch")
            _details(task, seen)
            if seen.has_ended:
                what.link(store, task, seen)
            _end_button(board, what, task, seen)
        if not seen.has_ended and seen.state != "waiting":
            st.progress(seen.share, text=escape_markdown(progress_words(seen, what.counted)))
        if seen.error:
            st.error(escape_markdown(seen.error), icon=":material/error:")
        for part in [part for part in seen.parts if part.state in ("failed", "there")][:MOST_PARTS]:
            st.caption(_trouble(part))
        for words in what.told(store, seen) if seen.has_ended else ():
            st.caption(words)


def _details(task: Task, seen: Snapshot) -> None:
    with st.popover("Details", icon=":material/terminal:", type="tertiary", key=f"details-{task.number}"):
        st.code(task.command, language="bash", wrap_lines=True)
        if seen.log:
            st.caption("What it said:")
            st.code("\n".join(seen.log), language=None, wrap_lines=True)


def _end_button(board: Desk, what: What, task: Task, seen: Snapshot) -> None:
    if seen.has_ended:
        st.button(
            "Clear",
            key=f"clear-{task.number}",
            type="tertiary",
            icon=":material/close:",
            help="From this list; what it brought stays",
            on_click=board.forget,
            args=(task,),
        )
        return
    st.button(
        "Stop",
        key=f"stop-{task.number}",
        icon=":material/stop:",
        disabled=seen.state == "stopping",
        help="What is written stays, and can be gone on with" if what.goes_on else "What has come in already stays",
        on_click=task.stop,
    )


def _standing(seen: Snapshot, what: What) -> str:
    if seen.state == "waiting":
        return "next in the queue" if seen.ahead <= 1 else f"{seen.ahead} before it in the queue"
    took = f"{_duration(seen.seconds)}"
    if seen.state == "done":
        return f"{_brought(seen, what)} in {took}"
    return {
        "running": f"at work for {took}",
        "stopping": "stopping after the step that it is at …",
        "failed": f"failed after {took}",
        "stopped": "stopped" + (f" after {took}{GOES_ON if what.goes_on else ''}" if seen.seconds else ""),
    }[seen.state]


def _brought(seen: Snapshot, what: What) -> str:
    new = what.count(seen)
    there = sum(part.state == "there" for part in seen.parts)
    left = sum(part.state == "failed" for part in seen.parts)
    words = [f"{new} {what.noun if new == 1 else what.nouns}"]
    words += [f"{there} {'was' if there == 1 else 'were'} there already"] if there else []
    words += [f"{left} left out"] if left else []
    return ", ".join(words)


def progress_words(seen: Snapshot, counted: str = "samples") -> str:
    """What is being done now, as the terminal would have it."""
    at = next((part for part in reversed(seen.parts) if not part.has_ended), None)
    if at is None:
        return "Getting ready" if not seen.parts else "The next one is being prepared"
    words = [f"{at.part + 1} of {at.parts}: {at.name}"] if at.parts > 1 else [at.name]
    words.append(f"{at.done:,} of {at.samples:,} samples" if at.samples else f"{at.done:,} {counted}")
    if at.written and at.samples_a_second:
        words.append(f"{at.samples_a_second:,.1f} a second")
    if at.seconds_left is not None:
        words.append(f"{_duration(at.seconds_left)} left{' of this run' if at.parts > 1 else ''}")
    if at.done and at.tokens:
        words.append(f"{at.passed / at.done:.0%} passed")
        words.append(f"{at.bad_blocks:,} of {at.blocks:,} blocks bad")
    return " · ".join(words)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02} s" if whole < 5400 else f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _trouble(part: Part) -> str:
    name = f"**{escape_markdown(part.name)}**"
    if part.state == "failed":
        return f":material/warning: {name}, left out: {escape_markdown(part.error)}"
    return f":material/info: {name} was there already, as {escape_markdown(part.run_id or part.made)}"


# --- what it brought ----------------------------------------------------------------------------------------------


def _compare_button(store: Store, task: Task, seen: Snapshot) -> None:
    if not seen.run_ids:
        return
    there = {name.partition("=")[2] for files in store.places for name in files.folders(RUN.folder)}
    runs = {part.run_id: part.lp for part in seen.parts if part.is_in_store and part.run_id in there}
    if runs:
        control, tests = control_of(runs)
        st.link_button(
            "Compare them" if tests else "Look at it",
            state.address(control, tests),
            key=f"compare-{task.number}",
            icon=":material/compare_arrows:",
            type="primary",
            help="The run without an LP is the control" if tests else None,
        )


def control_of(runs: Mapping[str, str]) -> tuple[str, list[str]]:
    """Of runs with their LPs, the first one without an LP, else the first; and as many others as can be compared."""
    control = next((run_id for run_id, lp in runs.items() if lp == "none"), next(iter(runs)))
    return control, [run_id for run_id in runs if run_id != control][: state.MOST_TESTS]


def made_by(seen: Snapshot) -> tuple[str, ...]:
    """The logs or traces that it brought, or found there already, each once."""
    return tuple(dict.fromkeys(one for part in seen.parts if part.is_in_store for one in part.made_ids))


RUNS = What(
    "run",
    "runs",
    "samples",
    lambda task: task.words[0] not in GROUPS,
    lambda seen: len({part.run_id for part in seen.parts if part.state == "done"}),
    _compare_button,
    goes_on=True,
)
