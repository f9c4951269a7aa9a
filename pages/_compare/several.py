"""Several runs at once: tags for all that are ticked, or one deletion of them, with one question and an undo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.store.entries import Entry, StoreListing
from engine.store.schema import RUN
from engine.store.store import Store
from pages._compare.runs import QUERY, RunSelection
from pages._shared.entry_picker import EntryPicker
from pages._shared.errors import escape_markdown
from pages._shared.managing import tasks, undo
from pages._shared.managing.entry_form import tags_in_use, tags_input
from pages._shared.run_rows import RUN_CHOICES, run_columns, run_row
from pages._shared.selection import SelectionQuery

MOST_TICKED, FILTERS_FROM = 100, 9
TICKED = SelectionQuery(RUN, "run", "tick", "tick", MOST_TICKED - 1, RunSelection, lambda entries: None, " of your own")


def show(store: Store) -> None:
    entries = store.found().entries
    own = tuple(entry for entry in entries if entry.files is store.home)
    if shipped := len(entries) - len(own):
        st.caption(f"{counted(shipped, 'run')} of the project, read-only, cannot be changed and are not listed.")
    picker = EntryPicker(
        TICKED, run_row, run_columns(), "Start or import one.", choices=RUN_CHOICES, filters_from=FILTERS_FROM,
        prefix="own_", folds=False,
    )  # fmt: skip
    chosen = picker.show(StoreListing(own, ()))
    if chosen is not None:
        with st.container(horizontal=True, vertical_alignment="bottom", key="ticked-runs"):
            _tags(store, own, chosen.ids)
            _deletion(store, chosen.entries)


def _tags(store: Store, own: Iterable[Entry], ids: Sequence[str]) -> None:
    tags = tags_input(tags_in_use(own), key="tags-of-ticked")
    for label, word, icon in (("Add tags", "add", "new_label"), ("Remove tags", "take", "label_off")):
        st.button(
            label, key=f"{word}-tags", icon=f":material/{icon}:", disabled=not tags, on_click=_change_tags,
            args=(store, ids), kwargs={word: tags},
        )  # fmt: skip


def _change_tags(store: Store, ids: Sequence[str], **tags: Sequence[str]) -> None:
    try:
        store.tag(ids, RUN, **tags)
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
    else:
        st.toast("Saved", icon=":material/save:")


def _deletion(store: Store, entries: Sequence[Entry]) -> None:
    what, ids = _count(entries), [entry.id for entry in entries]
    with st.popover(f"Delete {counted(len(ids), 'run')}", icon=":material/delete:", key="delete-ticked"):
        st.markdown(
            f"This deletes **{what}**. An export restores only texts. {undo.question(store)}{tasks.owner_words(ids)}"
        )
        st.button(
            "Delete", key="remove-ticked", type="primary", icon=":material/delete_forever:", on_click=_delete,
            args=(store, ids, what),
        )  # fmt: skip


def _count(entries: Sequence[Entry]) -> str:
    samples = sum(entry.row.get("samples") or 0 for entry in entries)
    return counted(len(entries), "run") + (f" with {counted(samples, 'sample')}" if samples else "")


def _delete(store: Store, ids: Sequence[str], what: str) -> None:
    try:
        undo.delete(store, ids, RUN, what)
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
        return
    TICKED.put(())
    for id_ in ids:
        QUERY.leave_out(id_)
