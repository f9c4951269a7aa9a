"""One trace of the store: all that is known of it, a label and notes of one's own, its file for Perfetto, its end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.profile.ingest import remove_trace
from engine.profile.kept import kept_bytes, kept_name, kept_size
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACES
from pages._shared.compare.state import address as run_address
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.profiles import state
from pages._shared.profiles.state import Chosen

KEY, NAMED = "managed_trace", "trace"
MOST_LABEL, MOST_NOTES, MOST_NAME = 200, 10_000, 90


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw the trace that the address names, else the control."""
    entries = store.found(TRACE).entries
    if not entries:
        st.info("The store holds no trace yet. Read a file, or capture one.", icon=":material/inbox:")
        return
    entry = _choice(entries, chosen)
    reason = why_read_only(store, entry)
    if reason:
        st.info(reason, icon=":material/lock:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        _sayings(store, entry, is_fixed=bool(reason))
        with st.container(horizontal=True):
            _download(entry)
            _removal(store, entry, chosen, is_fixed=bool(reason))
        _links(store, entry)
    with right:
        _facts(entry)


def why_read_only(store: Store, entry: Entry) -> str:
    """As Markdown; empty where the trace may be changed."""
    if entry.files is store.home:
        return ""
    where = escape_markdown(entry.files.where)
    return f"This trace ships with the project and lies in {where}, which is only read: it cannot be changed."


def _choice(entries: Sequence[Entry], chosen: Chosen | None) -> Entry:
    by_id = {entry.id: entry for entry in reversed(entries)}
    named = st.query_params.get(NAMED, "")
    usual = chosen.control.id if chosen is not None and chosen.control.id in by_id else next(iter(by_id))
    st.session_state[KEY] = named if named in by_id else usual
    trace_id = st.selectbox(
        "Trace",
        list(by_id),
        key=KEY,
        format_func=lambda one: f"{one} · {_named(by_id[one])}" if one in by_id else str(one),
        on_change=lambda: st.query_params.update({NAMED: st.session_state[KEY]}),
        help="Newest first. The control of the comparison, until you choose another one.",
    )
    return by_id[trace_id]


def _named(entry: Entry) -> str:
    return visible_text(str(entry.row.get("label") or entry.row.get("source") or ""))[:MOST_NAME]


# --- what may change ------------------------------------------------------------------------------------------------


def _sayings(store: Store, entry: Entry, *, is_fixed: bool) -> None:
    with st.form(f"trace-sayings-{entry.id}", border=False):
        label = st.text_input(
            "Label",
            (entry.row.get("label") or "")[:MOST_LABEL],
            max_chars=MOST_LABEL,
            disabled=is_fixed,
            help="The trace’s name for people. Its own name stays: links and queries rest on it.",
        )
        notes = st.text_area(
            "Notes", (entry.row.get("notes") or "")[:MOST_NOTES], max_chars=MOST_NOTES, disabled=is_fixed, height=120
        )
        if st.form_submit_button("Save label and notes", icon=":material/save:", disabled=is_fixed):
            try:
                store.say(entry.id, TRACE, label=" ".join(label.split()), notes=notes.strip())
            except DriftscopeError as error:
                st.error(escape_markdown(str(error)), icon=":material/error:")
            else:
                st.toast("Saved", icon=":material/save:")
                st.rerun()


def _removal(store: Store, entry: Entry, chosen: Chosen | None, *, is_fixed: bool) -> None:
    with st.popover("Delete", icon=":material/delete:", disabled=is_fixed, key=f"trace-removal-{entry.id}"):
        kept = " and the file that is kept of it" if kept_name(entry) else ""
        st.markdown(f"{escape_markdown(entry.id)}{kept} will be gone for good. A run that it is of stays.")
        st.button(
            "Delete for good",
            key=f"trace-remove-{entry.id}",
            type="primary",
            icon=":material/delete_forever:",
            on_click=_remove,
            args=(store, entry.id, chosen),
        )


def _remove(store: Store, trace_id: str, chosen: Chosen | None) -> None:
    try:
        remove_trace(store, trace_id)
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
        return
    is_named = state.CONTROL in st.query_params or state.TEST in st.query_params
    if chosen is not None and trace_id in chosen.ids and is_named:
        left = [one for one in chosen.ids if one != trace_id]
        state.put(left[0] if left else None)
    if NAMED in st.query_params:
        del st.query_params[NAMED]
    st.toast(f"{escape_markdown(trace_id)} is deleted", icon=":material/delete:")


# --- where it goes --------------------------------------------------------------------------------------------------


def _download(entry: Entry) -> None:
    size, name = kept_size(entry), kept_name(entry) or ""
    st.download_button(
        "Trace file",
        partial(kept_bytes, entry),
        name.rpartition("/")[2] or f"{entry.id}.json",
        "application/gzip" if name.endswith(".gz") else "application/json",
        key=f"trace-file-{entry.id}",
        icon=":material/download:",
        on_click="ignore",
        disabled=size is None,
        help=f"{size / 1e6:,.1f} MB. {_PERFETTO}"
        if size is not None
        else "The store does not keep its file: read it again with “Keep the file”.",
    )


_PERFETTO = (
    "For Perfetto: open ui.perfetto.dev or `chrome://tracing` in your browser, choose *Open trace file* and this file. "
    "It is read in the browser there; this app sends nothing."
)


def _links(store: Store, entry: Entry) -> None:
    """To the run that it is of, as far as the store has it."""
    run_id = str(entry.row.get("run_id") or "")
    if not run_id:
        return
    if run_id not in {one.id for one in store.found().entries}:
        st.caption(f"It is of the run {escape_markdown(run_id)}, which this store does not have.")
        return
    with st.container(horizontal=True):
        st.link_button(
            "Its run", run_address(run_id), icon=":material/compare_arrows:", type="tertiary", key="trace-run-compare",
            help="In Compare runs",
        )  # fmt: skip
        st.link_button(
            "Its samples", f"drift?run={run_id}", icon=":material/biotech:", type="tertiary", key="trace-run-drift",
            help="In the Drift inspector",
        )  # fmt: skip


def _facts(entry: Entry) -> None:
    known = [(column, entry.row.get(column.name)) for column in TRACES]
    rows = [(column.name, _value(value), column.what) for column, value in known if value is not None]
    st.dataframe(
        {name: [row[place] for row in rows] for place, name in enumerate(("column", "value", "what it says"))},
        hide_index=True,
        height=460,
        column_config={name: st.column_config.TextColumn(width=px) for name, px in (("column", 140), ("value", 220))},
        alt="All that is known of the trace",
    )


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible_text(str(value))
