"""What a page asks of the app's worker, in this tab: a job, then its result or its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.queue_words import waiting_words
from engine.figures.words import fixed
from engine.jobs.service import Job, Work, service
from pages._kit.errors import escaped
from pages._kit.visitor import presence, visitor

TICK_S = 0.25


@dataclass(slots=True)
class Asked:
    job: Job[Any] | None = None
    result: Any = None  # the last one, which stays while another job runs
    error: str = ""


def submit(asked: Asked, make: Callable[[], Work[Any]]) -> None:
    """What refuses the work, or the queue, is the error."""
    asked.error = ""
    try:
        asked.job = service().submit(visitor(), make(), is_there=presence())
    except DriftscopeError as error:
        asked.error = str(error)


@st.fragment(run_every=TICK_S)
def progress(asked: Asked, key: str, who: str = "", on_done: Callable[[Any], None] = lambda result: None) -> None:
    """A line with a Stop button until the job has ended; then the page is drawn again."""
    if asked.job is None:
        return
    seen = asked.job.poll()
    if seen.has_ended:
        if seen.state == "done":
            asked.result = asked.job.result
            on_done(asked.result)
        elif seen.state == "failed":
            asked.error = seen.error
        elif seen.note:
            asked.error = f"Stopped: {seen.note}."
        asked.job = None
        st.rerun()
    if seen.state == "waiting":
        words = waiting_words(seen.ahead)
    else:
        words = f"{seen.note or 'running'} · {fixed(seen.elapsed_s, 0)} s"
    with st.container(horizontal=True, vertical_alignment="center", border=True, key=f"asking-{key}"):
        st.markdown(escaped(f"{who}: {words}" if who else words))
        st.button("Stop", icon=":material/stop:", key=f"stop-{key}", on_click=_stop, args=(asked,))


def _stop(asked: Asked) -> None:
    if asked.job is not None:
        asked.job.stop()
        asked.job = None
