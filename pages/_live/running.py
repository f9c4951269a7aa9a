"""Lanes side by side while they are written, below the drawing of their molecule."""

from __future__ import annotations

import streamlit as st

from pages._live import session
from pages._live.board import drawing
from pages._live.lanes import chips_in, counters, heading, lane_columns, progress, strip
from pages._live.results import show_verdict
from pages._shared.inspected import inspected_in, open_store

TICK_S = 0.25
"""Between two redraws of the one reader. With several each waits so many times as long: all tabs are drawn by one
process, and eleven at this pace leave the model a tenth of its time."""


def tick_s() -> float:
    return TICK_S * max(1, session.readers())


def show_running(shown: int) -> None:
    """Draws all lanes, and redraws them until the last has ended. The strips show the text of the sample ``shown``."""
    tick = tick_s()
    st.fragment(_draw, run_every=tick)(shown, tick)


def _draw(shown: int, tick: float) -> None:
    is_running = session.poll()
    lanes = session.lanes()
    store = open_store()
    left, right = st.columns([2, 3], gap="medium", vertical_alignment="center")
    with left:
        drawing(shown)
    with right:
        progress(lanes)
    for column, lane in zip(lane_columns(lanes), lanes, strict=False):
        with column, st.container(border=True, gap="xsmall"):
            heading(lane)
            if (seen := inspected_in(store, lane.run_id, shown)) is not None:
                show_verdict(seen)  # while other lanes are still written
            counters(lane, shown)
            strip(lane, shown, chips_in(lane, shown))
    if not is_running or not tick / 2 <= tick_s() <= tick * 2:
        st.rerun()  # the whole page, with results or at another pace
