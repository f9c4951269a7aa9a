"""One entry of the store, whatever its kind: which one, a label and notes of one's own, its end, all that is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError
from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown

MOST_LABEL, MOST_NOTES, MOST_NAME = 200, 10_000, 90


def why_read_only(store: Store, entry: Entry, noun: str, what: str = "it cannot be changed") -> str:
    """As Markdown; empty where the entry may be changed. ``what`` can be done with it then."""
    if entry.files is store.home:
        return ""
    where = escape_markdown(entry.files.where)
    return f"This {noun} ships with the project and lies in {where}, which is only read: {what}."


def choice(
    label: str,
    entries: Sequence[Entry],
    words: Callable[[Entry], str],
    *,
    named: str,
    usual: str | None,
    who: str,
) -> Entry:
    """The entry that the address has under ``named``, else ``usual``, which is ``who`` in the help, else the newest.

    By its id: the widget's own binding would write what is shown into the address.
    """
    by_id, key = {entry.id: entry for entry in reversed(entries)}, f"managed_{label.lower()}"
    asked = st.query_params.get(named, "")
    st.session_state[key] = next((one for one in (asked, usual) if one in by_id), next(iter(by_id)))
    id_ = st.selectbox(
        label,
        list(by_id),
        key=key,
        format_func=lambda one: f"{one} · {visible_text(words(by_id[one]))[:MOST_NAME]}" if one in by_id else str(one),
        on_change=lambda: st.query_params.update({named: st.session_state[key]}),
        help=f"Newest first. {who}, until you choose another one.",
    )
    return by_id[id_]


def sayings(store: Store, entry: Entry, kind: Kind, noun: str, *, is_fixed: bool) -> None:
    """The form for label and notes."""
    with st.form(f"sayings-{entry.id}", border=False):
        label = st.text_input(
            "Label", (entry.row.get("label") or "")[:MOST_LABEL], max_chars=MOST_LABEL, disabled=is_fixed,
            help=f"The {noun}’s name for people. Its own name stays: links and queries rest on it.",
        )  # fmt: skip
        notes = st.text_area(
            "Notes", (entry.row.get("notes") or "")[:MOST_NOTES], max_chars=MOST_NOTES, disabled=is_fixed, height=140
        )
        if st.form_submit_button("Save label and notes", icon=":material/save:", disabled=is_fixed):
            try:
                store.say(entry.id, kind, label=" ".join(label.split()), notes=notes.strip())
            except DriftscopeError as error:
                st.error(escape_markdown(str(error)), icon=":material/error:")
            else:
                st.toast("Saved", icon=":material/save:")
                st.rerun()


def removal(
    entry: Entry, loss: str, remove: Callable[[], object], leave: Callable[[], None], *, is_fixed: bool
) -> None:
    """``loss`` says what goes, as Markdown; ``leave`` takes it out of what is looked at."""
    with st.popover("Delete", icon=":material/delete:", disabled=is_fixed, key=f"removal-{entry.id}"):
        st.markdown(loss)
        st.button(
            "Delete for good",
            key=f"remove-{entry.id}",
            type="primary",
            icon=":material/delete_forever:",
            on_click=_remove,
            args=(entry.id, remove, leave),
        )


def _remove(id_: str, remove: Callable[[], object], leave: Callable[[], None]) -> None:
    try:
        remove()
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
        return
    leave()
    st.toast(f"{escape_markdown(id_)} is deleted", icon=":material/delete:")


def forget(named: str) -> None:
    """Nothing is named in the address under this any more."""
    if named in st.query_params:
        del st.query_params[named]


def facts(entry: Entry, kind: Kind, noun: str, hidden: Collection[str] = ()) -> None:
    """All that is known of it, with what each column says."""
    known = [(column, entry.row.get(column.name)) for column in kind.main if column.name not in hidden]
    rows = [(column.name, _value(value), column.what) for column, value in known if value is not None]
    st.dataframe(
        {name: [row[place] for row in rows] for place, name in enumerate(("column", "value", "what it says"))},
        hide_index=True,
        height=460,
        column_config={name: st.column_config.TextColumn(width=px) for name, px in (("column", 140), ("value", 220))},
        alt=f"All that is known of the {noun}",
    )


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 or abs(value) >= 1e12 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible_text(str(value))[:MOST_NOTES]
