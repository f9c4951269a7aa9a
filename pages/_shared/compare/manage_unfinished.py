"""Runs that are not in the store yet: being written by anybody, or stopped; to be gone on with, or thrown away."""

from __future__ import annotations

import streamlit as st

from engine.errors import DriftscopeError
from engine.runner.background import desk, threads_beside
from engine.store.store import Store
from engine.store.unfinished import Unfinished, abandon, unfinished_runs
from pages._shared.errors import escape_markdown
from pages._shared.managing import tasks

TICK_S = 2.0
MOST_SHOWN = 50
WORDS = {
    "being written": ":material/edit_note: being written",
    "stopped": ":material/pause_circle: stopped",
    "damaged": ":material/broken_image: damaged",
}


def show(store: Store) -> None:
    """Draw the list; it ticks while something writes."""
    if any(one.state == "being written" for one in unfinished_runs(store.home)):
        _ticking(store)
    else:
        _draw(store, unfinished_runs(store.home))


@st.fragment(run_every=TICK_S)
def _ticking(store: Store) -> None:
    found = unfinished_runs(store.home)
    if not any(one.state == "being written" for one in found):
        st.rerun()
    _draw(store, found)


def _draw(store: Store, found: list[Unfinished]) -> None:
    if not found:
        st.info(
            "No run is unfinished. One that is stopped, here or in a terminal, or that a crash ended, is listed here "
            "and goes on behind the last group of samples that it had written.",
            icon=":material/task_alt:",
        )
        return
    if len(found) > MOST_SHOWN:
        st.caption(f"The newest {MOST_SHOWN} of {len(found):,}; `python -m engine runs --unfinished` lists all.")
    for one in found[::-1][:MOST_SHOWN]:
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"unfinished-{one.run_id}"):
            st.markdown(_words(one), width="stretch")
            _buttons(store, one)


def _words(one: Unfinished) -> str:
    row = one.row
    model = ":".join(str(row[name]) for name in ("model_alias", "model_step") if row.get(name))
    what = " · ".join(escape_markdown(str(part)) for part in (model, row.get("lp"), row.get("label")) if part)
    how = WORDS[one.state]
    if one.samples_done is not None:
        how = f"{one.samples_done:,} of {'?' if one.samples is None else f'{one.samples:,}'} samples · {how}"
    return f"**{escape_markdown(one.run_id)}**  \n{what + ' · ' if what else ''}{how}"


def _buttons(store: Store, one: Unfinished) -> None:
    is_ours = desk().is_at(one.run_id)
    if one.can_resume and st.button(
        "Resume",
        key=f"resume-{one.run_id}",
        icon=":material/play_arrow:",
        disabled=is_ours or one.state != "stopped",
        help="It is in the queue" if is_ours else "Goes on behind the last group that was written",
    ):
        words = ["run", f"--threads={threads_beside()}", "--resume", one.run_id]
        if tasks.submit(f"Going on with {one.run_id}", words, about=one.run_id):
            st.rerun(scope="app")
    with st.popover("Delete", icon=":material/delete:", disabled=is_ours or one.state == "being written"):
        st.markdown(f"What is written of {escape_markdown(one.run_id)} goes for good.")
        st.button(
            "Delete for good", key=f"abandon-{one.run_id}", type="primary", on_click=_abandon, args=(store, one.run_id)
        )


def _abandon(store: Store, run_id: str) -> None:
    try:
        abandon(store.home, run_id)
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
    else:
        st.toast(f"{escape_markdown(run_id)} is deleted", icon=":material/delete:")
