"""One run of the store: all that is known of it, a label and notes of one's own, its report file, its end."""

from __future__ import annotations

import gzip
import io
from functools import partial

import streamlit as st

from engine.comparing.figures import run_figures
from engine.store.entries import Entry
from engine.store.reports.exporting import export_report
from engine.store.schema import RUN, SAMPLES
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._shared.compare import state
from pages._shared.compare.state import Chosen, short_name
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.managing import one_entry
from pages._shared.profiles.state import address as profile_address

NAMED = "run"
MOST_TRACES = 5
"""The newest, of which there is a link."""


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw the run that the address names, else the control."""
    entries = store.found().entries
    if not entries:
        st.info("The store holds no run yet. Start one, or import one.", icon=":material/inbox:")
        return
    usual = chosen.control.id if chosen is not None else None
    who = "The control of the comparison"
    entry = one_entry.choice("Run", entries, run_words, named=NAMED, usual=usual, who=who)
    reason = one_entry.why_read_only(store, entry, "run", "it can be exported, not changed")
    if reason:
        st.info(reason, icon=":material/lock:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        one_entry.sayings(store, entry, RUN, "run", is_fixed=bool(reason))
        with st.container(horizontal=True):
            _export(entry)
            _removal(store, entry, chosen, is_fixed=bool(reason))
        _traces(store, entry)
    with right:
        one_entry.facts(entry, RUN, "run")


def run_words(entry: Entry) -> str:
    figures = run_figures(entry)
    return " · ".join(filter(None, (short_name(figures), figures.label)))


def _removal(store: Store, entry: Entry, chosen: Chosen | None, *, is_fixed: bool) -> None:
    count = entry.row.get("samples")
    samples = f" and its {count:,} samples" if count else ""
    one_entry.removal(
        entry,
        f"{escape_markdown(entry.id)}{samples} will be gone for good. An export brings only its texts back.",
        partial(store.remove, entry.id, RUN),
        partial(_leave, entry.id, chosen),
        is_fixed=is_fixed,
    )


def _leave(run_id: str, chosen: Chosen | None) -> None:
    is_named = state.CONTROL in st.query_params or state.TEST in st.query_params
    if chosen is not None and run_id in chosen.ids and is_named:
        left = [one for one in chosen.ids if one != run_id]
        state.put(left[0] if left else None, left[1:])
    one_entry.forget(NAMED)


# --- where it goes ------------------------------------------------------------------------------------------------


def _export(entry: Entry) -> None:
    has_samples = SAMPLES.name in entry.parts
    st.download_button(
        "Report file",
        partial(report_bytes, entry),
        f"{entry.id}.json.gz",
        "application/gzip",
        key=f"export-{entry.id}",
        icon=":material/download:",
        on_click="ignore",
        disabled=not has_samples,
        help="All texts, in the form of the reports' own files (.json.gz)"
        if has_samples
        else "It has no samples: a report states its figures only",
    )


def _traces(store: Store, entry: Entry) -> None:
    """Links to what a profiler recorded of it."""
    own = [one for one in store.found(TRACE).entries if one.row.get("run_id") == entry.id]
    if not own:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="run-traces"):
        st.caption("Its traces")
        for one in own[: -MOST_TRACES - 1 : -1]:
            label = escape_markdown(visible_text(str(one.row.get("label") or one.id)))
            st.link_button(label, profile_address(one.id), icon=":material/speed:", type="tertiary")


def report_bytes(entry: Entry) -> bytes:
    buffer = io.BytesIO()
    export_report(entry, buffer)
    return gzip.compress(buffer.getvalue(), mtime=0)
