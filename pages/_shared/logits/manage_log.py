"""One log of the store: all that is known of it, what was left out of its file, a label and notes, its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG, LOGIT_LOGS
from engine.store.store import Store
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.logits import state
from pages._shared.logits.state import Chosen, short_name

KEY, NAMED = "managed_log", "one"
MOST_LABEL, MOST_NOTES, MOST_NAME = 200, 10_000, 90
HIDDEN = ("findings", "rules")
"""JSON for programs; the Health tab says it in words."""


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw the log that the address names, else the one that is looked at."""
    entries = store.found(LOGIT_LOG).entries
    if not entries:
        st.info("The store holds no log yet. Read a file, or record one.", icon=":material/inbox:")
        return
    entry = _choice(entries, chosen)
    reason = why_read_only(store, entry)
    if reason:
        st.info(reason, icon=":material/lock:")
    if entry.row.get("left_out") or entry.row.get("is_cut"):
        st.warning(escape_markdown(visible_text(left_out(entry))), icon=":material/warning:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        _sayings(store, entry, is_fixed=bool(reason))
        with st.container(horizontal=True):
            st.link_button(
                "Its health", state.address(entry.id, **{state.VIEW: "Health"}), icon=":material/monitor_heart:"
            )
            _removal(store, entry, chosen, is_fixed=bool(reason))
    with right:
        _facts(entry)


def left_out(entry: Entry) -> str:
    """What of the file is not here: why, in its notes, until somebody has written over them."""
    notes, count = str(entry.row.get("notes") or ""), entry.row.get("left_out") or 0
    if "could not be read" in notes or "breaks off" in notes:
        return notes
    lines = "1 line could not be read." if count == 1 else f"{count:,} lines could not be read." if count else ""
    return f"{lines} {'The file breaks off; what stands before is here.' if entry.row.get('is_cut') else ''}".strip()


def why_read_only(store: Store, entry: Entry) -> str:
    """As Markdown; empty where the log may be changed."""
    if entry.files is store.home:
        return ""
    where = escape_markdown(entry.files.where)
    return f"This log ships with the project and lies in {where}, which is only read: it cannot be changed."


def _choice(entries: Sequence[Entry], chosen: Chosen | None) -> Entry:
    by_id = {entry.id: entry for entry in reversed(entries)}
    named = st.query_params.get(NAMED, "")
    usual = chosen.log.id if chosen is not None and chosen.log.id in by_id else next(iter(by_id))
    st.session_state[KEY] = named if named in by_id else usual
    log_id = st.selectbox(
        "Log",
        list(by_id),
        key=KEY,
        format_func=lambda one: (
            f"{visible_text(short_name(by_id[one]))[:MOST_NAME]} · {one}" if one in by_id else str(one)
        ),
        on_change=lambda: st.query_params.update({NAMED: st.session_state[KEY]}),
        help="Newest first. The one that is looked at, until you choose another one.",
    )
    return by_id[log_id]


# --- what may change ------------------------------------------------------------------------------------------------


def _sayings(store: Store, entry: Entry, *, is_fixed: bool) -> None:
    with st.form(f"log-sayings-{entry.id}", border=False):
        label = st.text_input(
            "Label",
            (entry.row.get("label") or "")[:MOST_LABEL],
            max_chars=MOST_LABEL,
            disabled=is_fixed,
            help="The log’s name for people. Its own name stays: links and queries rest on it.",
        )
        notes = st.text_area(
            "Notes", (entry.row.get("notes") or "")[:MOST_NOTES], max_chars=MOST_NOTES, disabled=is_fixed, height=120
        )
        if st.form_submit_button("Save label and notes", icon=":material/save:", disabled=is_fixed):
            try:
                store.say(entry.id, LOGIT_LOG, label=" ".join(label.split()), notes=notes.strip())
            except DriftscopeError as error:
                st.error(escape_markdown(str(error)), icon=":material/error:")
            else:
                st.toast("Saved", icon=":material/save:")
                st.rerun()


def _removal(store: Store, entry: Entry, chosen: Chosen | None, *, is_fixed: bool) -> None:
    with st.popover("Delete", icon=":material/delete:", disabled=is_fixed, key=f"log-removal-{entry.id}"):
        st.markdown(
            f"{escape_markdown(entry.id)} and its {entry.row['entries']:,} entries will be gone for good. "
            "The file that it was read from stays where it is."
        )
        st.button(
            "Delete for good",
            key=f"log-remove-{entry.id}",
            type="primary",
            icon=":material/delete_forever:",
            on_click=_remove,
            args=(store, entry.id, chosen),
        )


def _remove(store: Store, log_id: str, chosen: Chosen | None) -> None:
    try:
        store.remove(log_id, LOGIT_LOG)
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
        return
    is_named = state.LOG in st.query_params or state.BESIDE in st.query_params
    if chosen is not None and log_id in chosen.ids and is_named:
        left = [one for one in chosen.ids if one != log_id]
        state.put(left[0] if left else None)
    if NAMED in st.query_params:
        del st.query_params[NAMED]
    st.toast(f"{escape_markdown(log_id)} is deleted", icon=":material/delete:")


# --- what is known --------------------------------------------------------------------------------------------------


def _facts(entry: Entry) -> None:
    known = [(column, entry.row.get(column.name)) for column in LOGIT_LOGS if column.name not in HIDDEN]
    rows = [(column.name, _value(value), column.what) for column, value in known if value is not None]
    st.dataframe(
        {name: [row[place] for row in rows] for place, name in enumerate(("column", "value", "what it says"))},
        hide_index=True,
        height=460,
        column_config={name: st.column_config.TextColumn(width=px) for name, px in (("column", 140), ("value", 220))},
        alt="All that is known of the log",
    )


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible_text(str(value))[:MOST_NOTES]
