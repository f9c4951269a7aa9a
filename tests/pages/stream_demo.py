"""Strips of texts that are being written: what the browser tests and the pictures look at. Not a page of the app."""

from __future__ import annotations

import streamlit as st

from pages._shared.components.once import sent_under
from pages._shared.components.token_strip import Chip, token_strip
from pages._shared.frame import page
from tests.pages.stream_demo_size import TICK
from tests.pages.strip_demo_chips import HOSTILE, many

LANES = ("none", "group-v2.1", "exact")


page("Streams", ":material/token:", "Texts that are still being written.")
state = st.session_state
state.setdefault("count", TICK)
state.setdefault("text", 0)
state.setdefault("changed", {})


def chips() -> list[Chip]:
    row = [*many(state["count"])]
    for index, piece in state["changed"].items():
        row[index] = Chip(piece, index, "FREE", False, "junk", note="came later", atom=0)
    return row


def change_end() -> None:
    state["changed"][state["count"] - 2] = HOSTILE[0]


def pass_over() -> None:
    """A message that Streamlit sent and the browser never painted."""
    state["count"] += TICK
    sent_under("lane 0")["written"].send(chips(), joined())


def joined() -> str:
    return "".join(chip.piece for chip in chips()) + "\U0001f9ea"


def start_over() -> None:
    state.update(text=state["text"] + 1, count=TICK, changed={})


def grow(count: int) -> None:
    state["count"] += count


left, right = st.columns(2)
compact = left.toggle("Three lanes")
shown = right.toggle("Shown", value=True)
run = left.toggle("Running")
done = right.toggle("Done")
with st.container(horizontal=True):
    st.button("Tick", on_click=grow, args=(TICK,))
    st.button("Many", on_click=grow, args=(1000,))
    st.button("Change the end", on_click=change_end)
    st.button("Pass over", on_click=pass_over)
    st.button("Start over", on_click=start_over)
    st.button("Rerun")


@st.fragment(run_every=0.25 if run else None)
def lanes() -> None:
    if run:
        grow(TICK)
    columns = st.columns(3) if compact else [st.container()]
    for number, column in enumerate(columns):
        with column:
            selected = token_strip(
                chips(),
                stream=f"{number} {state['text']}",
                key=f"lane {number}",
                label=LANES[number],
                caption=f"{len(chips())} of many",
                legend=not compact,
                details=not compact,
                copy=not compact,
                max_height=240,
                follow=not done,
                text=joined(),
            )
            st.text(f"selected: {selected}")


if shown:
    lanes()
