"""One run of the store: all that is known of it, a label and notes of one's own, its report file, its end."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.comparing.figures import run_figures
from engine.errors import DriftscopeError
from engine.store.entries import Entry
from engine.store.reports.exporting import export_report
from engine.store.schema import RUN, RUNS, SAMPLES
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._shared.compare import state
from pages._shared.compare.state import Chosen, short_name
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.profiles.state import address as profile_address

KEY, NAMED = "managed_run", "run"
MOST_LABEL, MOST_NOTES = 200, 10_000
MOST_TRACES = 5
"""The newest, of which there is a link."""


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw the run that the address names, else the control."""
    entries = store.found().entries
    if not entries:
        st.info("The store holds no run yet. Start one, or import one.", icon=":material/inbox:")
        return
    entry = _choice(entries, chosen)
    reason = why_read_only(store, entry)
    if reason:
        st.info(reason, icon=":material/lock:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        _sayings(store, entry, is_fixed=bool(reason))
        with st.container(horizontal=True):
            _export(entry)
            _removal(store, entry, chosen, is_fixed=bool(reason))
        _traces(store, entry)
    with right:
        _facts(entry)


def why_read_only(store: Store, entry: Entry) -> str:
    """As Markdown; empty where the run may be changed."""
    if entry.files is store.home:
        return ""
    where = escape_markdown(entry.files.where)
    return f"This run ships with the project and lies in {where}, which is only read: it can be exported, not changed."


def _choice(entries: Sequence[Entry], chosen: Chosen | None) -> Entry:
    by_id = {entry.id: entry for entry in reversed(entries)}
    named = st.query_params.get(NAMED, "")
    usual = chosen.control.id if chosen is not None else next(iter(by_id))
    st.session_state[KEY] = named if named in by_id else usual
    run_id = st.selectbox(
        "Run",
        list(by_id),
        key=KEY,
        format_func=lambda one: f"{one} · {visible_text(run_words(by_id[one]))}",
        on_change=lambda: st.query_params.update({NAMED: st.session_state[KEY]}),
        help="Newest first. The control of the comparison, until you choose another one.",
    )
    return by_id[run_id]


def run_words(entry: Entry) -> str:
    figures = run_figures(entry)
    return " · ".join(filter(None, (short_name(figures), figures.label)))


# --- what may change ----------------------------------------------------------------------------------------------


def _sayings(store: Store, entry: Entry, *, is_fixed: bool) -> None:
    with st.form(f"sayings-{entry.id}", border=False):
        label = st.text_input(
            "Label", entry.row.get("label") or "", max_chars=MOST_LABEL, disabled=is_fixed,
            help="The run's name for people. Its own name stays: links and queries rest on it.",
        )  # fmt: skip
        notes = st.text_area("Notes", entry.row.get("notes") or "", max_chars=MOST_NOTES, disabled=is_fixed, height=160)
        if st.form_submit_button("Save label and notes", icon=":material/save:", disabled=is_fixed):
            try:
                store.say(entry.id, label=" ".join(label.split()), notes=notes.strip())
            except DriftscopeError as error:
                st.error(escape_markdown(str(error)), icon=":material/error:")
            else:
                st.toast("Saved", icon=":material/save:")
                st.rerun()


def _removal(store: Store, entry: Entry, chosen: Chosen | None, *, is_fixed: bool) -> None:
    with st.popover("Delete", icon=":material/delete:", disabled=is_fixed, key=f"removal-{entry.id}"):
        count = entry.row.get("samples")
        samples = f" and its {count:,} samples" if count else ""
        st.markdown(
            f"{escape_markdown(entry.id)}{samples} will be gone for good. An export brings only its texts back."
        )
        st.button(
            "Delete for good",
            key=f"remove-{entry.id}",
            type="primary",
            icon=":material/delete_forever:",
            on_click=_remove,
            args=(store, entry.id, chosen),
        )


def _remove(store: Store, run_id: str, chosen: Chosen | None) -> None:
    try:
        store.remove(run_id, RUN)
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
        return
    if (
        chosen is not None
        and run_id in chosen.ids
        and (state.CONTROL in st.query_params or state.TEST in st.query_params)
    ):
        left = [one for one in chosen.ids if one != run_id]
        state.put(left[0] if left else None, left[1:])
    if NAMED in st.query_params:
        del st.query_params[NAMED]
    st.toast(f"{escape_markdown(run_id)} is deleted", icon=":material/delete:")


# --- what is known ------------------------------------------------------------------------------------------------


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


def _facts(entry: Entry) -> None:
    known = [(column, entry.row.get(column.name)) for column in RUNS]
    rows = [(column.name, _value(value), column.what) for column, value in known if value is not None]
    st.dataframe(
        {name: [row[place] for row in rows] for place, name in enumerate(("column", "value", "what it says"))},
        hide_index=True,
        height=460,
        column_config={name: st.column_config.TextColumn(width=px) for name, px in (("column", 140), ("value", 220))},
    )


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible_text(str(value))
