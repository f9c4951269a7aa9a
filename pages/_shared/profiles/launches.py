"""The Profiles page's second section: what launching and waiting cost, and what a step is made of."""

from __future__ import annotations

import streamlit as st

from engine.profile.compare import Comparison
from engine.profile.words import is_alone, launches_words
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.profiles import families_html as html
from pages._shared.profiles import families_table as tables
from pages._shared.profiles import launches_figures as figures
from pages._shared.profiles import launches_phases as phases
from pages._shared.profiles.reading import comparison_of
from pages._shared.profiles.state import Chosen
from pages._shared.profiles.traces import say_nobody
from pages._shared.table_files import CSV

NO_CALLS = "No call into a device's runtime is in {which}, so launches, waits and delays are not known."


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no trace is chosen."""
    if chosen is None:
        say_nobody(store, "its launches and its steps")
        return
    found = comparison_of(chosen)
    st.html(html.style())
    with st.container(border=True, key="launches-say"):
        st.markdown(escape_markdown(launches_words(found)))
    if without := _without_calls(found):
        st.caption(f":material/info: {NO_CALLS.format(which=without)}")
    with st.container(key="profile-cards"):
        phases.show(store, chosen)
    names = " and ".join(chosen.name(entry) for entry in chosen.traces)
    st.subheader("Figures", anchor=False)
    st.html(html.table("figure", figures.groups(found), figures.lines(found), f"Figures of {names}", "told"))
    st.caption("– is not known; a count of 0 is known." + _ratio(found))
    _calls(found, names)
    _downloads(found)


def _ratio(found: Comparison) -> str:
    return "" if is_alone(found) else " × is test over control."


def _without_calls(found: Comparison) -> str:
    launches = found.figure("launch_calls")
    is_missing = launches.control is None, launches.test is None
    if is_alone(found):
        return "this trace" if is_missing[0] else ""
    return {(True, True): "these traces", (True, False): "A", (False, True): "B"}.get(is_missing, "")


def _calls(found: Comparison, names: str) -> None:
    """Calls into the runtime, or where there are none, operators by family over tokens."""
    if found.calls:
        st.subheader("Calls into the runtime", anchor=False)
        groups = tables.groups(found, of_work=False)
        lines = tables.lines(found, found.calls, of_work=False)
        st.html(html.table("calls", groups, lines, f"Calls into the runtime of {names}"))
        return
    lines = figures.a_token(found)
    if lines:
        st.subheader("Operators a token", anchor=False)
        st.html(html.table("family", figures.groups(found), lines, f"Operators a token of {names}"))


def _downloads(found: Comparison) -> None:
    st.download_button(
        "CSV",
        lambda: figures.csv_of(found),
        "figures.csv",
        CSV,
        icon=":material/download:",
        help="Every figure, as the engine names it",
        on_click="ignore",
        type="tertiary",
        key="launches_csv",
    )
