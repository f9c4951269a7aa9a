"""The lanes of this browser tab: submitted to the worker, polled, stopped, and kept in the session.

The address names them, so that a tab that is loaded again finds them: its session is a new one then.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

import streamlit as st

from engine.jobs.lane import LaneWatch, warm_up, write_lane
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.service import Job, JobSnapshot, service
from engine.lp_records import guard_words, stored_lp
from engine.models.registry import ModelEntry
from engine.records import Molecule
from engine.store.store import temporary_files
from pages._kit.visitor import adopt_visitor, presence, visitor

_LANES, _NAME, _SINCE = "live_lanes", "live_lanes_name", "live_since"
STAYS_S = 10.0
ADDRESS = "lanes"
"""The query parameter that names a start."""
MOST_STARTS, MOST_KEPT = 32, 2_000
"""Starts that are kept, and answers of all their lanes: one takes 50 KB with its alignment."""
_STARTS: dict[str, list[Running]] = {}  # of all tabs, by name, oldest first
_STARTING = threading.Lock()


@dataclass(slots=True)
class Running:
    """One lane: its job, and its state so far."""

    number: int  # from 1, as the page counts
    job: Job[None]
    watch: LaneWatch
    seen: JobSnapshot
    was_stopped: bool = False  # by the user

    @property
    def lp(self) -> str:
        return self.watch.plan.plan.lp

    @property
    def model(self) -> str:
        return f"{self.watch.plan.model.alias}:{self.watch.plan.model.step}"

    @property
    def title(self) -> str:
        backend = self.watch.backend if self.watch.backend in ("hf", "server") else ""
        guard = guard_words(json.dumps(asdict(self.watch.plan.plan.guard_settings)), stored_lp(self.lp))
        return " · ".join(part for part in (str(self.number), self.lp, backend, guard) if part)

    @property
    def run_id(self) -> str | None:
        return self.watch.run_id

    def poll(self) -> None:
        if not self.seen.has_ended:
            self.seen = self.job.poll()


def warm(entry: ModelEntry, device: str) -> None:
    """Has the worker import what it needs and load the first model, before the first click: 3.5 s, and 450 MB that a
    reader who soon goes on to another page may never need."""
    since = st.session_state.setdefault(_SINCE, time.monotonic())

    @st.fragment(run_every=STAYS_S)
    def look() -> None:
        if time.monotonic() - since >= STAYS_S and service().is_unused:
            service().submit(visitor(), partial(warm_up, ModelChoice(entry.alias, entry.step, device=device)))

    if service().is_unused:
        look()


def start(plans: Sequence[RunPlan], molecules: Sequence[Molecule]) -> None:
    """Queues the lanes in place of earlier ones: all, or none with an error."""
    running: list[Running] = []
    try:
        for number, plan in enumerate(plans, start=1):
            watch = LaneWatch(plan, molecules)
            work = partial(write_lane, watch, temporary_files())
            job = service().submit(visitor(), work, replace=not running, is_there=presence())
            running.append(Running(number, job, watch, job.poll()))
    except BaseException:
        for queued in running:
            queued.job.stop()
        raise
    name = secrets.token_urlsafe(16)
    _keep(running, name)
    _show(running, name)


def _keep(running: list[Running], name: str) -> None:
    """The newest for certain, and those before as far as there is room."""
    with _STARTING:
        _STARTS[name] = running
        while len(_STARTS) > 1:
            answers = sum(lane.watch.samples for start in _STARTS.values() for lane in start)
            if len(_STARTS) <= MOST_STARTS and answers <= MOST_KEPT:
                break
            del _STARTS[next(iter(_STARTS))]


def _show(running: list[Running], name: str) -> None:
    st.session_state[_LANES], st.session_state[_NAME] = running, name
    st.query_params[ADDRESS] = name


def find_again() -> None:
    """Takes the lanes that the address names where their tab is gone, such as the one that this tab was before."""
    name = st.query_params.get(ADDRESS)
    if lanes():
        if name != st.session_state[_NAME]:
            st.query_params[ADDRESS] = st.session_state[_NAME]
        return
    if name is None:
        return
    started = _STARTS.get(name)
    if started is None or any(lane.job.is_there() for lane in started):
        del st.query_params[ADDRESS]
        return
    adopt_visitor(started[0].job.owner)
    running = []
    for lane in started:
        lane.job.is_there = presence()
        running.append(Running(lane.number, lane.job, lane.watch, lane.job.poll(), lane.was_stopped))
    with _STARTING:
        _STARTS[name] = running
    _show(running, name)


def lanes() -> list[Running]:
    """The lanes of the last start, in order."""
    lanes: list[Running] = st.session_state.get(_LANES, [])
    return lanes


def name() -> str:
    """Of the last start, as the address has it."""
    return str(st.session_state.get(_NAME, ""))


def poll() -> bool:
    """Takes in new events; whether any lane still runs or waits."""
    for lane in lanes():
        lane.poll()
    return any(not lane.seen.has_ended for lane in lanes())


def stop(running: Sequence[Running]) -> None:
    for lane in running:
        lane.was_stopped = True
        lane.job.stop()
