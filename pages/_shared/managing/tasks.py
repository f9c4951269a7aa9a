"""Commands that were started from a page: their state, output and results, and how to stop them.

They belong to the server, not to a visitor: other tabs show them too. A page shows those of its own kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.queue_words import QueueState, waiting_words
from engine.figures.words import counted, duration, percent
from engine.runner.background import GROUPS, Input, Task, TaskSnapshot, task_queue
from engine.runner.progress_file import PartProgress
from engine.store.schema import RUN
from engine.store.store import Store
from engine.store.unfinished import unfinished_runs
from pages._shared.errors import escape_markdown
from pages._shared.links import MOST_TESTS, compare_address
from pages._shared.managing.resuming import rest_of

TICK_S = 0.7
MOST_PARTS = 40
"""Parts that are named one by one."""
MOST_ENDED = 4
"""Ended tasks that are in sight; the others are folded away."""
CAN_RESUME = "; you can resume it"
_SEEN, _MINE = "tasks seen at their end", "tasks started in this tab"
SeenTask = tuple[Task, TaskSnapshot]
SYMBOLS: dict[QueueState, str] = {
    "waiting": ":material/hourglass_empty:",
    "running": ":material/play_circle:",
    "stopping": ":material/pending:",
    "done": ":material/check_circle:",
    "failed": ":material/error:",
    "stopped": ":material/stop_circle:",
}


@dataclass(frozen=True, slots=True)
class TaskKind:
    """What a page's tasks produce: the noun, what is counted meanwhile, and how to open it."""

    noun: str
    nouns: str
    counted: str
    is_own: Callable[[Task], bool]
    count: Callable[[TaskSnapshot], int]
    link: Callable[[Store, Task, TaskSnapshot], None]
    told: Callable[[Store, TaskSnapshot], Iterable[str]] = lambda *_: ()  # more of what it brought, as Markdown
    can_resume: bool = False  # whether a stopped one can be resumed


def submit(title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> bool:
    """Put a command into the queue, and say so; False where it was refused."""
    try:
        task = task_queue().submit(title, words, inputs, about=about)
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return False
    st.session_state[_MINE] = {*st.session_state.get(_MINE, ()), task.number}
    st.toast(f"{escape_markdown(task.title)}: in the queue", icon=":material/playlist_add_check:")
    return True


def owner_words(run_ids: Iterable[str]) -> str:
    """A sentence where a task of another tab wrote any of these runs, as far as the queue remembers; else nothing."""
    ids, mine = set(run_ids), st.session_state.get(_MINE, ())
    elsewhere: set[str] = set()
    for task, seen in task_queue().tasks():
        if task.number not in mine:
            elsewhere |= ids & {task.about, *(part.run_id for part in seen.parts)}
    if not elsewhere:
        return ""
    which = "It was" if len(ids) == 1 else f"{len(elsewhere)} of them {'was' if len(elsewhere) == 1 else 'were'}"
    return f" {which} started in another browser tab, perhaps by someone else."


def show(store: Store, kind: TaskKind | None = None) -> None:
    """Draw these tasks (those that write runs, without a kind), newest first; they are redrawn while one is running."""
    kind = kind or RUNS
    if not (tasks := _own(kind)):
        return
    if _is_busy(tasks):
        _has_news(tasks)  # the page that is drawn now shows what they brought
        _ticking(store, kind)
    else:
        _draw(store, kind, tasks)


@st.fragment(run_every=TICK_S)
def _ticking(store: Store, kind: TaskKind) -> None:
    tasks = _own(kind)
    if _has_news(tasks) or not _is_busy(tasks):
        st.rerun()  # there is something new, or the ticking ends
    _draw(store, kind, tasks)


def _own(kind: TaskKind) -> list[SeenTask]:
    return [(task, seen) for task, seen in task_queue().tasks() if kind.is_own(task)]


def _is_busy(tasks: Iterable[SeenTask]) -> bool:
    return any(not seen.has_ended for _, seen in tasks)


def _has_news(tasks: Iterable[SeenTask]) -> bool:
    """Whether a task has ended since the last time."""
    known: set[int] = st.session_state.setdefault(_SEEN, set())
    new = {task.number for task, seen in tasks if seen.has_ended} - known
    known |= new
    return bool(new)


def _draw(store: Store, kind: TaskKind, tasks: Sequence[SeenTask]) -> None:
    earlier = [(task, seen) for task, seen in tasks if seen.has_ended][MOST_ENDED:]
    for task, seen in tasks:
        if (task, seen) not in earlier:
            _task(store, kind, task, seen)
    if earlier:
        with st.expander(f"{len(earlier)} earlier"):
            for task, seen in earlier:
                _task(store, kind, task, seen)


def _task(store: Store, kind: TaskKind, task: Task, seen: TaskSnapshot) -> None:
    with st.container(border=True, key=f"task-{task.number}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            title = f"**{escape_markdown(task.title)}**"
            st.markdown(f"{SYMBOLS[seen.state]} {title} · {_standing(seen, kind)}", width="stretch")
            _details(task, seen)
            if seen.has_ended:
                kind.link(store, task, seen)
            if kind.can_resume and seen.state in ("stopped", "failed") and not task.is_resumed:
                _resume_button(store, task, seen)
            _end_button(kind, task, seen)
        if not seen.has_ended and seen.state != "waiting":
            st.progress(seen.share, text=escape_markdown(progress_words(seen, kind.counted)))
        if seen.error:
            st.error(escape_markdown(seen.error), icon=":material/error:")
        for part in [part for part in seen.parts if part.state in ("failed", "there")][:MOST_PARTS]:
            st.caption(_trouble(part))
        for words in kind.told(store, seen) if seen.has_ended else ():
            st.caption(words)


def _details(task: Task, seen: TaskSnapshot) -> None:
    with st.popover("Details", icon=":material/terminal:", type="tertiary", key=f"details-{task.number}"):
        st.code(task.command, language=None, wrap_lines=True)
        if seen.log:
            st.caption("Output:")
            st.code("\n".join(seen.log), language=None, wrap_lines=True)


def _resume_button(store: Store, task: Task, seen: TaskSnapshot) -> None:
    """The whole job: runs that were begun are resumed, the others are begun."""
    unfinished = {run.run_id for run in unfinished_runs(store.home) if run.state != "damaged"}
    rest = rest_of(task, seen, lambda run_id: run_id in unfinished and not task_queue().is_at(run_id))
    if not rest or (seen.state == "failed" and not seen.parts):  # what failed at once would fail again
        return
    help_ = "All that is left of it: what was begun after its last saved batch, and what was not"
    if st.button("Resume", key=f"resume-task-{task.number}", icon=":material/play_arrow:", help=help_):
        task.is_resumed = all(submit(title, words, inputs, about=about) for title, words, inputs, about in rest)
        st.rerun(scope="app")


def _end_button(kind: TaskKind, task: Task, seen: TaskSnapshot) -> None:
    if seen.has_ended:
        st.button(
            "Clear",
            key=f"clear-{task.number}",
            type="tertiary",
            icon=":material/close:",
            help="Removes it from this list; its results stay",
            on_click=task_queue().forget,
            args=(task,),
        )
        return
    help_ = "What is saved stays, and you can resume it" if kind.can_resume else "What is imported already stays"
    is_stopping = seen.state == "stopping"
    look: dict[str, Any] = {"icon": ":material/stop:", "disabled": is_stopping, "help": help_}
    if task.number in st.session_state.get(_MINE, ()):
        st.button("Stop", key=f"stop-{task.number}", on_click=task.stop, **look)
        return
    with st.popover("Stop", key=f"ask-{task.number}", **look):
        st.markdown("This was started in another browser tab, perhaps by someone else.")
        st.button("Stop it for everyone", key=f"stop-{task.number}", disabled=is_stopping, on_click=task.stop)


def _standing(seen: TaskSnapshot, kind: TaskKind) -> str:
    if seen.state == "waiting":
        return waiting_words(seen.ahead)
    took = duration(round(seen.seconds))
    if seen.state == "done":
        states, new = [part.state for part in seen.parts], kind.count(seen)
        words = [counted(new, kind.noun, kind.nouns)]
        words += [f"{count} already in the store"] if (count := states.count("there")) else []
        words += [f"{count} left out"] if (count := states.count("failed")) else []
        return f"{', '.join(words)} in {took}"
    return {
        "running": f"running for {took}",
        "stopping": "stopping after the current step …",
        "failed": f"failed after {took}",
        "stopped": "stopped" + (f" after {took}" if seen.seconds else "") + (_left(seen) if kind.can_resume else ""),
    }[seen.state]


def _left(seen: TaskSnapshot) -> str:
    """What a stopped job leaves."""
    if not seen.parts:
        return "; nothing was begun"
    whole, done = seen.parts[0].parts, sum(part.has_ended for part in seen.parts)
    if whole == 1:
        return CAN_RESUME if not done else ""
    begun = len(seen.parts) - done
    return f": {done} of {whole} runs done, {begun} begun, {whole - done - begun} not begun"


def progress_words(seen: TaskSnapshot, counted: str = "samples") -> str:
    """What is being done now, as the terminal would have it."""
    at = next((part for part in reversed(seen.parts) if not part.has_ended), None)
    if at is None:
        step = "Loading the model" if seen.parts or seen.log else "Starting Python and the model"
        return f"{step}, {duration(round(seen.seconds))}"
    words = [f"{at.part + 1} of {at.parts}: {at.name}"] if at.parts > 1 else [at.name]
    words.append(f"{at.done:,} of {at.samples:,} samples" if at.samples else f"{at.done:,} {counted}")
    if at.written and at.samples_a_second:
        words.append(f"{at.samples_a_second:,.1f} per second")
    if at.seconds_left is not None:
        words.append(f"{duration(round(at.seconds_left))} left{' of this run' if at.parts > 1 else ''}")
    if at.done and at.tokens:
        words.append(f"{percent(at.passed / at.done)} passed")
        words.append(f"{percent(at.decodes / at.done)} decode")
        words.append(f"{percent(at.clean / at.done)} clean")
        words.append(f"{at.bad_blocks:,} of {at.blocks:,} blocks bad")
    return " · ".join(words)


def _trouble(part: PartProgress) -> str:
    name = f"**{escape_markdown(part.name)}**"
    if part.state == "failed":
        return f":material/warning: {name}, left out: {escape_markdown(part.error)}"
    return f":material/info: {name} is in the store already, as {escape_markdown(part.run_id or part.made)}"


# --- what it brought ----------------------------------------------------------------------------------------------


def _compare_button(store: Store, task: Task, seen: TaskSnapshot) -> None:
    if not seen.run_ids:
        return
    there = {name.partition("=")[2] for files in store.places for name in files.folders(RUN.folder)}
    runs = {part.run_id: part.lp for part in seen.parts if part.is_in_store and part.run_id in there}
    if runs:
        control, tests = control_of(runs)
        help_ = "The run without an LP is the control" if tests else ""
        open_button(task, compare_address(control, tests), help_)


def open_button(task: Task, address: str, help_of_pair: str) -> None:
    """To what a task brought: one entry, or a control and its tests, where a help says which is which."""
    st.link_button(
        "Compare them" if help_of_pair else "Open",
        address,
        key=f"compare-{task.number}",
        icon=":material/compare_arrows:",
        type="primary",
        help=help_of_pair or None,
    )


def control_of(runs: Mapping[str, str]) -> tuple[str, list[str]]:
    """Of runs with their LPs, the first one without an LP, else the first; and as many others as can be compared."""
    control = next((run_id for run_id, lp in runs.items() if lp == "none"), next(iter(runs)))
    return control, [run_id for run_id in runs if run_id != control][:MOST_TESTS]


def made_by(seen: TaskSnapshot) -> tuple[str, ...]:
    """The logs or traces that it brought, or found there already, each once."""
    return tuple(dict.fromkeys(made_id_ for part in seen.parts if part.is_in_store for made_id_ in part.made_ids))


RUNS = TaskKind(
    "run",
    "runs",
    "samples",
    lambda task: task.words[0] not in (*GROUPS, "evaluate"),
    lambda seen: len({part.run_id for part in seen.parts if part.state == "done"}),
    _compare_button,
    can_resume=True,
)
