"""The Logit health page's answer for the logs that are looked at: what is wrong, where it stands, and which values."""

from __future__ import annotations

import streamlit as st

from engine.errors import DriftscopeError, one_line
from engine.logits.figures import Health, health
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.logits import health_distribution, health_findings, health_map, health_values
from pages._shared.logits.models import css
from pages._shared.logits.state import Chosen


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no log is chosen."""
    if chosen is None:
        st.info(
            "Once a log is ticked above, what is wrong with it, and where, comes here.", icon=":material/arrow_upward:"
        )
        return
    st.html(f"<style>{css()}</style>")
    with st.container(key="logit-findings"):
        found = _findings(store, chosen)
    log = _of_which(chosen, found)
    if log is None:
        return
    with st.container(key="logit-details"):
        health_map.show(store, log)
        left, right = st.columns(2, gap="small")
        with left:
            health_distribution.show(store, log)
        with right:
            health_values.show_positions(found[log.id])
        health_values.show_values(store, log, found[log.id])


def _findings(store: Store, chosen: Chosen) -> dict[str, Health]:
    """Those that read, side by side where there are two."""
    found: dict[str, Health] = {}
    for place, log in zip(st.columns(len(chosen.logs), gap="small"), chosen.logs, strict=True):
        with place, st.container(border=True, height="stretch", key=f"health-{chosen.letter(log.id)}"):
            st.subheader(escape_markdown(one_line(chosen.name(log.id))), anchor=False)
            try:
                with st.spinner("Counting …"):
                    found[log.id] = health(store, log)
            except DriftscopeError as error:
                words = str(error)
                st.error(escape_markdown(words[:1].upper() + words[1:]), icon=":material/error:")
            else:
                health_findings.show(log, found[log.id])
    return found


def _of_which(chosen: Chosen, found: dict[str, Health]) -> Entry | None:
    """The log whose details are shown."""
    logs = [log for log in chosen.logs if log.id in found]
    if len(logs) < 2:
        return logs[0] if logs else None
    letters = {chosen.letter(log.id): log for log in logs}
    letter = st.segmented_control(
        "Details of",
        list(letters),
        default="A",
        required=True,
        key="of",
        bind="query-params",
    )
    return letters.get(letter or "A", logs[0])
