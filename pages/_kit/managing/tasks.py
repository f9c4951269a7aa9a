"""Commands that were started from a page: their state, output and results, and how to stop them.

They belong to the server, not to a visitor: the side bar of every page has all, also those of other tabs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import streamlit as st

from engine.errors import DriftscopeError, one_line
from engine.figures.queue_words import waiting_words
from engine.figures.words import counted, duration, fixed, percent, rounded, shortened
from engine.jobs.commands import Input, Task, TaskSnapshot, task_queue
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG, RUN, TRACE
from engine.store.store import Store
from pages._kit.errors import error_markdown, escaped
from pages._kit.links import (
    MOST_TESTS,
    address_button,
    compare_address,
    inspector_address,
    logits_address,
    profiles_address,
)

Brought = Mapping[str, Sequence[Entry]]  # by noun
TICK_S = 0.7
MOST_PARTS, MOST_ENDED, MOST_NOTES = 40, 8, 600  # named one by one; ended tasks in sight; characters
LOADING = ("run", "cost-of-lp", "advise")  # commands that load a model
READING = ("import", "trace", "logits", "references")
KINDS = {"run": RUN, "trace": TRACE, "log": LOGIT_LOG}


def submit(title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> bool:
    """Put a command into the queue, and say so; False where it was refused. The side bar has it at the next run."""
    try:
        task = task_queue().submit(title, words, inputs, about=about)
    except DriftscopeError as error:
        st.error(error_markdown(error), icon=":material/error:")
        return False
    st.toast(f"{escaped(task.title)}: in the queue", icon=":material/playlist_add_check:")
    return True


def tray() -> None:
    """All of them in the side bar, newest first. It is redrawn while one is running, and there is none without jobs."""
    tasks = task_queue().tasks()
    if not tasks:
        return
    # The page that is drawn now shows what those that have ended brought.
    ended = {task.number for task, seen in tasks if seen.has_ended}
    with st.sidebar.container(key="jobs", gap="small"):
        (st.fragment(run_every=TICK_S)(_draw) if len(ended) < len(tasks) else _draw)(ended)


def _draw(ended: set[int]) -> None:
    tasks = task_queue().tasks()
    if {task.number for task, seen in tasks if seen.has_ended} - ended:
        st.rerun()  # the page shows what is new, or the ticking ends
    if tasks:
        st.markdown(f"**{counted(len(tasks), 'job')}**")
    store = Store.open()
    old = [task for task, seen in tasks if seen.has_ended][MOST_ENDED:]
    for task, seen in tasks:
        if task not in old:
            _task(store, task, seen)


def _task(store: Store, task: Task, seen: TaskSnapshot) -> None:
    results = brought(store, seen) if seen.has_ended else {}
    with st.container(border=True, key=f"task-{task.number}", gap="small"):
        st.markdown(f"**{escaped(task.title)}** · {_state_words(seen, results)}")
        if not seen.has_ended and seen.state != "waiting":
            st.progress(seen.share, text=escaped(progress_words(task, seen)))
        _notes(seen, results)
        if task.words[0] == "import":
            _notes_of_runs(results.get("run", ()))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            _buttons(store, task, seen, results)


def _buttons(store: Store, task: Task, seen: TaskSnapshot, results: Brought) -> None:
    if seen.has_ended:
        _links(store, task, results)
    else:
        st.button(
            "Stop",
            key=f"stop-{task.number}",
            icon=":material/stop:",
            disabled=seen.state == "stopping",
            on_click=task.job.stop,
            help="What is saved or imported stays, and runs can be resumed",
        )
    with st.popover("Details", type="tertiary", key=f"details-{task.number}"):
        st.code(task.command, language=None, wrap_lines=True)
        st.code("\n".join(seen.log), language=None, wrap_lines=True)
    if seen.has_ended:
        forget = task_queue().forget
        about = "Its results stay"
        st.button("Clear", key=f"clear-{task.number}", type="tertiary", help=about, on_click=forget, args=(task,))


def _notes(seen: TaskSnapshot, results: Brought) -> None:
    """What went wrong or was left out, and what was there before."""
    if seen.error:
        st.error(escaped(seen.error), icon=":material/error:")
    apart = [part for part in seen.parts if part.state in ("failed", "there")]
    for part in [part for part in apart if not part.error or part.error not in (seen.error or "")][:MOST_PARTS]:
        stored = f"already in the store, as {part.run_id or part.made}"
        words = f"left out: {part.error}" if part.state == "failed" else stored
        st.caption(f"**{escaped(part.name)}**, {escaped(words)}")
    for log in [log for log in results.get("log", ()) if log.row.get("left_out") or log.row.get("is_cut")]:
        st.caption(f"{escaped(log.id + ': ' + str(log.row.get('notes')))}")


def _notes_of_runs(runs: Sequence[Entry]) -> None:
    """What an import found in its files, and what of them cannot be read."""
    for run in [run for run in runs if run.row.get("notes")][:MOST_PARTS]:
        words = escaped(shortened(one_line(run.row["notes"]), MOST_NOTES))
        st.caption(f"**{escaped(str(run.row.get('source')))}**: {words}")


def _state_words(seen: TaskSnapshot, results: Brought) -> str:
    took = duration(rounded(seen.elapsed_s))
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
            words = [counted(len(entries), noun) for noun, entries in results.items() if entries]
            words += [f"{count} already in the store"] if (count := states.count("there")) else []
            words += [f"{count} left out"] if (count := states.count("failed")) else []
            return f"{', '.join(words) or 'done'} in {took}"
    stopped = "stopped" + (f" after {took}" if seen.elapsed_s else "")
    if not seen.parts:
        return f"{stopped}; nothing was begun"
    whole = seen.parts[0].parts
    begun = len(seen.parts)
    done = sum(part.has_ended for part in seen.parts)
    return f"{stopped}: {done} of {whole} done, {begun - done} begun, {whole - begun} not begun"


def _step_words(task: Task, seen: TaskSnapshot) -> str:
    """What a command does while it tells of no part: it starts, or is on the way from one to the next."""
    is_loading, has_begun = task.words[0] in LOADING, bool(seen.parts or seen.log)
    if not has_begun:
        return "Starting Python and the model" if is_loading else "Starting Python"
    if is_loading:
        return "Loading the model"
    return "Reading files" if task.words[0] in READING else "Computing"


def progress_words(task: Task, seen: TaskSnapshot) -> str:
    """What is being done now, as the terminal would have it."""
    at = next((part for part in reversed(seen.parts) if not part.has_ended), None)
    if at is None:
        return f"{_step_words(task, seen)}, {duration(rounded(seen.elapsed_s))}"
    words = [f"{at.part + 1} of {at.parts}: {at.name}"] if at.parts > 1 else [at.name]
    words.append(f"{at.done:,} of {at.samples:,} samples" if at.samples else f"{at.done:,} read")
    if at.written and at.samples_a_second:
        words.append(f"{fixed(at.samples_a_second, 1)} per second")
    if at.seconds_left is not None:
        left = f"{duration(rounded(at.seconds_left))} left"
        words.append(f"{left} of this run" if at.parts > 1 else left)
    if at.done and at.tokens:
        words += [f"{percent(at.passes / at.done)} passed", f"{percent(at.clean / at.done)} clean"]
        words.append(f"{at.bad_blocks:,} of {at.blocks:,} blocks bad")
    return " · ".join(words)


# --- what it brought --------------------------------------------------------------------------------------------------


def brought(store: Store, seen: TaskSnapshot) -> Brought:
    made = {id_ for part in seen.parts for id_ in part.made_ids}
    return {
        noun: [e for e in store.listing(kind).entries if e.id in made or e.row.get("run_id") in seen.run_ids]
        for noun, kind in KINDS.items()
    }


def _links(store: Store, task: Task, results: Brought) -> None:
    lps = {run.id: run.row.get("lp") for run in store.listing().entries}
    for noun, entries in results.items():
        if not entries:
            continue
        control, *tests = sorted(entries, key=lambda entry: lps.get(str(entry.row.get("run_id"))) != "none")
        ids = [test.id for test in tests]
        if noun == "run":
            address = compare_address(control.id, ids[:MOST_TESTS]) if ids else inspector_address(control.id)
        elif noun == "trace":
            address = profiles_address(control.id, ids[-1] if ids else None)
        else:
            address = logits_address(control.id, ids[0] if ids else None, view="Parity" if ids else "Health")
        address_button(
            f"Compare {noun}s" if ids else f"Open {noun}",
            address,
            key=f"open-{noun}-{task.number}",
            type="primary",
            icon=":material/compare_arrows:",
            help="The one without an LP is the control" if ids else None,
        )
