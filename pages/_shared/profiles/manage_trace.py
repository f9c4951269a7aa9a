"""One trace of the store: all that is known of it, a label and notes of one's own, its file for Perfetto, its end."""

from __future__ import annotations

from functools import partial

import streamlit as st

from engine.profile.ingest import remove_trace
from engine.profile.kept import kept_bytes, kept_name, kept_size
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._shared.compare.state import address as run_address
from pages._shared.errors import escape_markdown
from pages._shared.managing import one_entry
from pages._shared.profiles import state
from pages._shared.profiles.state import Chosen

NAMED = "trace"


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw the trace that the address names, else the control."""
    entries = store.found(TRACE).entries
    if not entries:
        st.info("The store holds no trace yet. Read a file, or capture one.", icon=":material/inbox:")
        return
    usual = chosen.control.id if chosen is not None else None
    who = "The control of the comparison"
    entry = one_entry.choice("Trace", entries, _named, named=NAMED, usual=usual, who=who)
    reason = one_entry.why_read_only(store, entry, "trace")
    if reason:
        st.info(reason, icon=":material/lock:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        one_entry.sayings(store, entry, TRACE, "trace", is_fixed=bool(reason))
        with st.container(horizontal=True):
            _download(entry)
            _removal(store, entry, chosen, is_fixed=bool(reason))
        _links(store, entry)
    with right:
        one_entry.facts(entry, TRACE, "trace")


def _named(entry: Entry) -> str:
    return str(entry.row.get("label") or entry.row.get("source") or "")


def _removal(store: Store, entry: Entry, chosen: Chosen | None, *, is_fixed: bool) -> None:
    kept = " and the file that is kept of it" if kept_name(entry) else ""
    one_entry.removal(
        entry,
        f"{escape_markdown(entry.id)}{kept} will be gone for good. A run that it is of stays.",
        partial(remove_trace, store, entry.id),
        partial(_leave, entry.id, chosen),
        is_fixed=is_fixed,
    )


def _leave(trace_id: str, chosen: Chosen | None) -> None:
    is_named = state.CONTROL in st.query_params or state.TEST in st.query_params
    if chosen is not None and trace_id in chosen.ids and is_named:
        left = [one for one in chosen.ids if one != trace_id]
        state.put(left[0] if left else None)
    one_entry.forget(NAMED)


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
