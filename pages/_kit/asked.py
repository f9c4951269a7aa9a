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
    who: str = ""  # is asked: a model
    result: Any = None  # the last one, which stays while another job runs
    result_of: str = ""  # who was asked then
    error: str = ""

    def submit(self, make: Callable[[], Work[Any]], who: str = "") -> None:
        """What refuses the work, or the queue, is the error."""
        self.error, self.who = "", who
        try:
            self.job = service().submit(visitor(), make(), is_there=presence())
        except DriftscopeError as error:
            self.error = str(error)

    def stop(self) -> None:
        if self.job is not None:
            self.job.stop()
            self.job = None


def asked(*key: object) -> Asked:
    """What was asked under this key in this tab."""
    by_key: dict[object, Asked] = st.session_state.setdefault("asked", {})
    return by_key.setdefault(key, Asked())


def show_error(of: Asked) -> None:
    if of.error:
        st.error(escaped(of.error), icon=":material/error:")


@st.fragment(run_every=TICK_S)
def progress(of: Asked, key: str, on_done: Callable[[Any], None] = lambda result: None) -> None:
    """A line with a Stop button until the job has ended; then the page is drawn again."""
    if of.job is None:
        return
    seen = of.job.poll()
    if seen.has_ended:
        if seen.state == "done":
            of.result, of.result_of = of.job.result, of.who
            on_done(of.result)
        elif seen.state == "failed":
            of.error = seen.error
        elif seen.note:
            of.error = f"Stopped: {seen.note}."
        of.job = None
        st.rerun()
    is_waiting = seen.state == "waiting"
    words = waiting_words(seen.ahead) if is_waiting else f"{seen.note or 'running'} · {fixed(seen.elapsed_s, 0)} s"
    with st.container(horizontal=True, vertical_alignment="center", border=True, key=f"asking-{key}"):
        st.markdown(escaped(f"{of.who}: {words}" if of.who else words))
        st.button("Stop", icon=":material/stop:", key=f"stop-{key}", on_click=of.stop)
