"""The lanes of this browser tab: handed to the worker, polled, stopped, and kept in the session until others follow."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import streamlit as st

from engine.live.lane import Lane, LaneEvent, lane_work
from engine.live.lane import warm as warm_work
from engine.live.watching import LaneWatch
from engine.models.registry import ModelEntry
from engine.records import Molecule
from engine.runner.plan import ModelChoice
from engine.service import Job, Snapshot, service
from engine.store.passing import passing_files
from pages._shared.visitor import presence, visitor

_LANES = "live_lanes"


@dataclass(slots=True)
class Running:
    """One lane: its job, and what has been seen of it."""

    number: int  # from 1, as the page counts
    job: Job[LaneEvent]
    watch: LaneWatch
    seen: Snapshot[LaneEvent]
    was_stopped: bool = False  # by hand
    name: str = field(default_factory=lambda: secrets.token_hex(4))  # of its text in a strip

    @property
    def lp(self) -> str:
        return self.watch.lane.plan.plan.lp

    @property
    def backend(self) -> str:
        return self.watch.lane.plan.plan.backend

    @property
    def title(self) -> str:
        return f"{self.number} · {self.lp}" + ("" if self.backend == "fast" else f" · {self.backend}")

    @property
    def run_id(self) -> str | None:
        return None if self.watch.finished is None else self.watch.finished.run_id

    def poll(self) -> None:
        if not self.seen.ended:
            self.seen = self.job.poll(self.seen.next_index)
            self.watch.take(self.seen.events)


def warm(entry: ModelEntry, device: str) -> None:
    """Have the worker import what it needs, and load the first model, while the reader still reads."""
    if not lanes():
        service().wake("first lane", warm_work(ModelChoice(entry.alias, entry.step, device=device)))


def start(asked: Sequence[Lane], molecules: Sequence[Molecule]) -> None:
    """Queue the lanes, in place of any that are there. A refusal is raised, and then none of them runs."""
    running: list[Running] = []
    try:
        for number, lane in enumerate(asked, start=1):
            job = service().submit(
                visitor(),
                lane_work(lane, passing_files()),
                label=f"{lane.plan.model.alias} {lane.plan.plan.lp}",
                replace=not running,
                is_there=presence(),
            )
            watch = LaneWatch(lane, molecules)
            running.append(Running(number, job, watch, job.poll()))
            watch.take(running[-1].seen.events)
    except BaseException:
        for one in running:
            one.job.cancel()
        raise
    st.session_state[_LANES] = running


def lanes() -> list[Running]:
    """Those of the last start, in order; none before the first."""
    found: list[Running] = st.session_state.get(_LANES, [])
    return found


def poll() -> bool:
    """Look what is new; whether any lane is still to end."""
    for one in lanes():
        one.poll()
    return any(not one.seen.ended for one in lanes())


def stop(running: Sequence[Running]) -> None:
    for one in running:
        one.was_stopped = True
        one.job.cancel()
