"""The Logit health page's answer for the chosen logs: what is damaged, where, and which values."""

from __future__ import annotations

import streamlit as st

from engine.errors import DriftscopeError, one_line
from engine.figures.words import capitalised, counted, percent
from engine.logits.causes import CERTAINTY_LABELS, ON_PURPOSE, LogFinding
from engine.logits.health import Health, health
from engine.logits.health_words import certainty_sentence, health_sentences
from engine.logits.late_reads import LateRead, late_in_store
from engine.store.entries import Entry
from engine.store.store import Store
from pages._logits import health_distribution, health_map, health_values
from pages._logits.logs import LogSelection
from pages._shared.errors import escape_markdown


def show(store: Store, chosen: LogSelection) -> None:
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


def _findings(store: Store, chosen: LogSelection) -> dict[str, Health]:
    """Of the logs that can be read, side by side."""
    found: dict[str, Health] = {}
    for place, log in zip(st.columns(len(chosen.entries), gap="small"), chosen.entries, strict=True):
        with place, st.container(border=True, height="stretch", key=f"health-{chosen.letter(log.id)}"):
            st.subheader(escape_markdown(one_line(chosen.name(log.id))), anchor=False)
            try:
                with st.spinner("Counting …"):
                    found[log.id] = health(store, log)
            except DriftscopeError as error:
                words = str(error)
                st.error(escape_markdown(capitalised(words)), icon=":material/error:")
            else:
                show_findings(log, found[log.id], late_in_store(store, log))
    return found


def _of_which(chosen: LogSelection, found: dict[str, Health]) -> Entry | None:
    """The log whose details are shown."""
    logs = [log for log in chosen.entries if log.id in found]
    if len(logs) < 2:
        return logs[0] if logs else None
    by_id = {log.id: log for log in logs}
    id_ = st.segmented_control(
        "Details of",
        list(by_id),
        default=logs[0].id,
        required=True,
        key="of",
        format_func=chosen.letter_or_id,
        bind="query-params",
    )
    return by_id.get(id_ or "", logs[0])


def show_findings(log: Entry, health: Health, late: LateRead | None = None) -> None:
    answer, *details, _ = health_sentences(health, late)
    badge = "**Read late** :red-badge[:material/error: damaged (likely)]  \n" if late is not None else ""
    st.markdown(badge + escape_markdown(answer))
    _figures(health)
    for finding in health.findings:
        _finding(finding)
    places = details[-1] if health.flags else ""
    notes = [text for text in (places, str(log.row.get("notes") or "")) if text]
    st.caption(escape_markdown(" ".join(notes)))


def _figures(health: Health) -> None:
    damaged = len(health.damaged_positions)
    metrics = {
        "Damaged entries": (percent(health.damaged_share), f"{health.damaged_entries:,} of {health.entries:,}"),
        "Damaged values": (
            percent(health.damaged_values / health.values),
            f"{health.damaged_values:,} of {health.values:,}",
        ),
        "Positions": (f"{damaged:,}", f"with damage, of {len(health.positions):,}"),
        "By the report's rule": (percent(health.garbage_share), "entries with a huge number"),
    }
    with st.container(horizontal=True, gap="medium"):
        for label, (value, note) in metrics.items():
            st.metric(label, value, note, delta_color="off", delta_arrow="off", width="content")


def _finding(finding: LogFinding) -> None:
    title = escape_markdown(capitalised(finding.title))
    certainty = CERTAINTY_LABELS[finding.certainty]
    badge = f":red-badge[:material/error: damaged ({certainty})]"
    sentence = f" {certainty_sentence(finding)}"
    if finding.cause in ON_PURPOSE:
        badge, sentence = f":gray-badge[:material/check: on purpose ({certainty})]", ""
    where = f" at {finding.where}" if finding.where else ""
    lines = [f"**{title}** {badge}  ", escape_markdown(f"{counted(finding.values, 'value')}{where}.{sentence}"), ""]
    st.markdown("\n".join([*lines, *(f"- {escape_markdown(text)}" for text in finding.evidence)]))
