"""Commands that were started from a page: their state, output and results, and how to stop them.

They belong to the server, not to a visitor: other tabs show them too. A page shows those of its own kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.queue_words import QueueState, waiting_words
from engine.figures.words import counted, duration, percent
from engine.runner.background import GROUPS, Input, Task, TaskSnapshot, task_queue
from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.schema import RUN
from engine.store.store import Store
from engine.store.unfinished import unfinished_runs
from pages._shared.errors import escape_markdown
from pages._shared.links import MOST_TESTS, compare_address
from pages._shared.words import visible_text

TICK_S = 0.7
MOST_PARTS, MOST_TOLD, MOST_ENDED = 40, 12, 4  # named one by one; ended tasks in sight, the others are folded away
_MINE = "tasks started in this tab"
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
    mine = st.session_state.get(_MINE, ())
    others = [(task, seen) for task, seen in task_queue().tasks() if task.number not in mine]
    written = {id_ for task, seen in others for id_ in (task.about, *(part.run_id for part in seen.parts))}
    count = len({*run_ids} & written)
    return f" {counted(count, 'of these was', 'of these were')} started in another browser tab." if count else ""


def show(store: Store, kind: TaskKind | None = None) -> None:
    """Draw these tasks (those that write runs, without a kind), newest first; they are redrawn while one is running."""
    kind = kind or RUNS
    tasks = [(task, seen) for task, seen in task_queue().tasks() if kind.is_own(task)]
    is_busy = any(not seen.has_ended for _, seen in tasks)
    # The page that is drawn now shows what those that have ended brought.
    ended = {task.number for task, seen in tasks if seen.has_ended}
    (st.fragment(run_every=TICK_S)(_draw) if is_busy else _draw)(store, kind, ended)


def _draw(store: Store, kind: TaskKind, ended: set[int]) -> None:
    tasks = [(task, seen) for task, seen in task_queue().tasks() if kind.is_own(task)]
    if {task.number for task, seen in tasks if seen.has_ended} - ended:
        st.rerun()  # the page shows what is new, or the ticking ends
    earlier = [task.number for task, seen in tasks if seen.has_ended][MOST_ENDED:]
    for task, seen in tasks:
        if task.number not in earlier:
            _task(store, kind, task, seen)
    if earlier:
        with st.expander(f"{len(earlier)} earlier"):
            for task, seen in tasks:
                if task.number in earlier:
                    _task(store, kind, task, seen)


def _task(store: Store, kind: TaskKind, task: Task, seen: TaskSnapshot) -> None:
    with st.container(border=True, key=f"task-{task.number}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            title = f"**{escape_markdown(task.title)}**"
            st.markdown(f"{SYMBOLS[seen.state]} {title} · {_standing(seen, kind)}", width="stretch")
            with st.popover("Details", icon=":material/terminal:", type="tertiary", key=f"details-{task.number}"):
                st.code(task.command, language=None, wrap_lines=True)
                st.code("\n".join(seen.log), language=None, wrap_lines=True)
            _buttons(store, kind, task, seen)
        if not seen.has_ended and seen.state != "waiting":
            st.progress(seen.share, text=escape_markdown(progress_words(seen, kind.counted)))
        if seen.error:
            st.error(escape_markdown(seen.error), icon=":material/error:")
        for part in [part for part in seen.parts if part.state in ("failed", "there")][:MOST_PARTS]:
            there = f"already in the store, as {part.run_id or part.made}"
            words = f"left out: {part.error}" if part.state == "failed" else there
            st.caption(f":material/info: **{escape_markdown(part.name)}**, {escape_markdown(words)}")
        for words in kind.told(store, seen) if seen.has_ended else ():
            st.caption(words)


def _buttons(store: Store, kind: TaskKind, task: Task, seen: TaskSnapshot) -> None:
    number, is_stopping = task.number, seen.state == "stopping"
    if seen.has_ended:
        kind.link(store, task, seen)
        is_left = seen.state == "stopped" or (seen.state == "failed" and seen.parts)  # else it would fail again
        if kind.can_resume and is_left and not task.is_resumed:
            unfinished = {run.run_id for run in unfinished_runs(store.home) if run.state != "damaged"}
            rest = rest_of(task, seen, lambda run_id: run_id in unfinished and not task_queue().is_at(run_id))
            if rest and st.button("Resume", key=f"resume-task-{number}", icon=":material/play_arrow:"):
                task.is_resumed = all(submit(title, words, inputs, about=about) for title, words, inputs, about in rest)
                st.rerun(scope="app")
        st.button(
            "Clear", key=f"clear-{number}", type="tertiary", icon=":material/close:", help="Its results stay",
            on_click=task_queue().forget, args=(task,),
        )  # fmt: skip
        return
    help_ = "What is saved stays, and you can resume it" if kind.can_resume else "What is imported already stays"
    look: dict[str, Any] = {"icon": ":material/stop:", "disabled": is_stopping, "help": help_}
    if number in st.session_state.get(_MINE, ()):
        st.button("Stop", key=f"stop-{number}", on_click=task.stop, **look)
        return
    with st.popover("Stop", key=f"ask-{number}", **look):
        st.markdown("This was started in another browser tab, perhaps by someone else.")
        st.button("Stop it for everyone", key=f"stop-{number}", disabled=is_stopping, on_click=task.stop)


def _standing(seen: TaskSnapshot, kind: TaskKind) -> str:
    took = duration(round(seen.seconds))
    match seen.state:
        case "waiting":
            return waiting_words(seen.ahead)
        case "running":
            return f"running for {took}"
        case "stopping":
            return "stopping after the current step …"
        case "failed":
            return f"failed after {took}"
        case "done":
            states = [part.state for part in seen.parts]
            words = [counted(kind.count(seen), kind.noun, kind.nouns)]
            words += [f"{count} already in the store"] if (count := states.count("there")) else []
            words += [f"{count} left out"] if (count := states.count("failed")) else []
            return f"{', '.join(words)} in {took}"
    stopped = "stopped" + (f" after {took}" if seen.seconds else "")
    if not kind.can_resume:
        return stopped
    if not seen.parts:
        return f"{stopped}; nothing was begun"
    whole, done = seen.parts[0].parts, sum(part.has_ended for part in seen.parts)
    begun = len(seen.parts) - done
    return f"{stopped}: {done} of {whole} runs done, {begun} begun, {whole - done - begun} not begun"


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
        shares = (("passed", at.passed), ("decode", at.decodes), ("clean", at.clean))
        words += [f"{percent(count / at.done)} {name}" for name, count in shares]
        words.append(f"{at.bad_blocks:,} of {at.blocks:,} blocks bad")
    return " · ".join(words)


def rest_of(
    task: Task, seen: TaskSnapshot, is_unfinished: Callable[[str], bool]
) -> list[tuple[str, list[str], list[Input], str]]:
    """Title, words, inputs and subject of each command that finishes a stopped ``run``.

    Its parts are numbered as it begins them: models, and LPs within each. A run that was begun is resumed after its
    last saved batch; those that were not are begun with the same words.
    """
    if task.words[0] != "run":
        return []
    begun = {part.part: part for part in seen.parts}
    if "--resume" in task.words:
        is_done = bool(begun) and all(part.has_ended for part in seen.parts)
        return [] if is_done else [(task.title, list(task.words), [], task.about)]
    models, lps = ([value for word, value in pairwise(task.words) if word == name] for name in ("--model", "--lp"))
    rest: list[tuple[str, list[str], list[Input], str]] = []
    missing: dict[str, list[str]] = {}
    for number, (model, lp) in enumerate(product(models or [""], lps or [""])):
        part = begun.get(number)
        if part is None:
            missing.setdefault(model, []).append(lp)
        elif not part.has_ended and is_unfinished(part.run_id):
            words = [*(word for word in task.words if word.startswith("--threads=")), "--resume", part.run_id]
            rest.append((f"Resume {part.run_id}", ["run", *words], [], part.run_id))
    inputs = [(path.name, path.read_bytes()) for path in task.inputs if path.exists()]
    others = [after for before, after in pairwise(task.words) if not {before, after} & {"--model", "--lp"}]
    for model, of_model in missing.items():
        named = [("--model", model), *(("--lp", lp) for lp in of_model)]
        words = ["run", *(word for name, value in named if value for word in (name, value)), *others]
        rest.append((f"{task.title}: {' · '.join(filter(None, (model, *of_model)))}", words, inputs, ""))
    return rest


# --- what it brought --------------------------------------------------------------------------------------------------


def brought(store: Store, kind: Kind, seen: TaskSnapshot) -> list[Entry]:
    """Logs or traces that it read, or found there, in its order; else those of the runs that it wrote."""
    known = {entry.id: entry for entry in store.found(kind).entries}
    made = dict.fromkeys(id_ for part in seen.parts if part.is_in_store for id_ in part.made_ids)
    if made:
        return [known[id_] for id_ in made if id_ in known]
    return [entry for entry in known.values() if entry.row.get("run_id") in {*seen.run_ids}]


def told(store: Store, kind: Kind, seen: TaskSnapshot, words: Callable[[Entry], str], odd: str) -> Iterator[str]:
    """What came in, in ``words``, and its warnings, which are in the column ``odd``."""
    entries = brought(store, kind, seen)
    for entry in entries[:MOST_TOLD]:
        row = entry.row
        name = escape_markdown(visible_text(str(row.get("label") or row.get("source") or entry.id))[:80])
        yield f":material/check: **{name}**: {words(entry)}, as {escape_markdown(entry.id)}"
        for line in str(row.get(odd) or "").splitlines()[:5]:
            yield f":material/warning: {name}: {escape_markdown(visible_text(line))}"
    if len(entries) > MOST_TOLD:
        yield f"and {len(entries) - MOST_TOLD} more"
    if seen.state == "done" and seen.run_ids and not entries:
        yield ":material/info: Nothing was recorded: the runs ended before, or it was deleted."


def open_button(task: Task, address: str, help_of_pair: str) -> None:
    """To what a task brought: one entry, or a control and its tests, where a help says which is which."""
    st.link_button(
        "Compare them" if help_of_pair else "Open", address, key=f"compare-{task.number}", type="primary",
        icon=":material/compare_arrows:", help=help_of_pair or None,
    )  # fmt: skip


def _compare_button(store: Store, task: Task, seen: TaskSnapshot) -> None:
    there = {name.partition("=")[2] for files in store.places for name in files.folders(RUN.folder)}
    runs = {part.run_id: part.lp for part in seen.parts if part.is_in_store and part.run_id in there}
    if runs:
        control = next((run_id for run_id, lp in runs.items() if lp == "none"), next(iter(runs)))
        tests = [run_id for run_id in runs if run_id != control][:MOST_TESTS]
        open_button(task, compare_address(control, tests), "The run without an LP is the control" if tests else "")


RUNS = TaskKind(
    "run",
    "runs",
    "samples",
    lambda task: task.words[0] not in (*GROUPS, "evaluate"),
    lambda seen: len({part.run_id for part in seen.parts if part.state == "done"}),
    _compare_button,
    can_resume=True,
)
