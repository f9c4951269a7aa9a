"""One log of the store: all that is known of it, what was left out of its file, a label and notes, its end."""

from __future__ import annotations

from functools import partial

import streamlit as st

from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.logits import state
from pages._shared.logits.state import Chosen, short_name
from pages._shared.managing import one_entry

NAMED = "one"
HIDDEN = ("findings", "rules")
"""JSON for programs; the Health tab says it in words."""


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw the log that the address names, else the one that is looked at."""
    entries = store.found(LOGIT_LOG).entries
    if not entries:
        st.info("The store holds no log yet. Read a file, or record one.", icon=":material/inbox:")
        return
    usual = chosen.log.id if chosen is not None else None
    entry = one_entry.choice("Log", entries, short_name, named=NAMED, usual=usual, who="The one that is looked at")
    reason = one_entry.why_read_only(store, entry, "log")
    if reason:
        st.info(reason, icon=":material/lock:")
    if entry.row.get("left_out") or entry.row.get("is_cut"):
        st.warning(escape_markdown(visible_text(left_out(entry))), icon=":material/warning:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        one_entry.sayings(store, entry, LOGIT_LOG, "log", is_fixed=bool(reason))
        with st.container(horizontal=True):
            st.link_button(
                "Its health", state.address(entry.id, **{state.VIEW: "Health"}), icon=":material/monitor_heart:"
            )
            _removal(store, entry, chosen, is_fixed=bool(reason))
    with right:
        one_entry.facts(entry, LOGIT_LOG, "log", HIDDEN)


def left_out(entry: Entry) -> str:
    """What of the file is not here: why, in its notes, until somebody has written over them."""
    notes, count = str(entry.row.get("notes") or ""), entry.row.get("left_out") or 0
    if "could not be read" in notes or "breaks off" in notes:
        return notes
    lines = "1 line could not be read." if count == 1 else f"{count:,} lines could not be read." if count else ""
    return f"{lines} {'The file breaks off; what stands before is here.' if entry.row.get('is_cut') else ''}".strip()


def _removal(store: Store, entry: Entry, chosen: Chosen | None, *, is_fixed: bool) -> None:
    one_entry.removal(
        entry,
        f"{escape_markdown(entry.id)} and its {entry.row['entries']:,} entries will be gone for good. "
        "The file that it was read from stays where it is.",
        partial(store.remove, entry.id, LOGIT_LOG),
        partial(_leave, entry.id, chosen),
        is_fixed=is_fixed,
    )


def _leave(log_id: str, chosen: Chosen | None) -> None:
    is_named = state.LOG in st.query_params or state.BESIDE in st.query_params
    if chosen is not None and log_id in chosen.ids and is_named:
        left = [one for one in chosen.ids if one != log_id]
        state.put(left[0] if left else None)
    one_entry.forget(NAMED)
