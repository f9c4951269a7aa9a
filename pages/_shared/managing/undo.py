"""Deletions that a browser tab may undo until it leaves the page or is closed. Then they are removed for good.

Nothing else ends them but the end of this process; what a killed one left is for ``engine.store.trash.prune``.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from engine.errors import DriftscopeError
from engine.store.columns import Kind
from engine.store.trash import Deletion, prune
from pages._shared.errors import escape_markdown
from pages._shared.visitor import presence

if TYPE_CHECKING:  # every page imports this, and not every page needs the store
    from engine.store.store import Store

LOOK_S, MOST_ABSENT = 5.0, 2
"""Seconds between two looks whether the tab is there; and how many it may miss, since a connection may come back."""
_DELETED, _PAGE = "deletions that can be undone", "page that is open"
_open: set[Deletion] = set()


@dataclass(frozen=True, slots=True)
class Undoable:
    deletion: Deletion
    what: str  # as Markdown


def question(store: Store) -> str:
    """What a deletion says of undoing it before it is made, as Markdown."""
    if store.home.can_rename:
        return "You can undo it until you leave this page or close the tab."
    return f"There is no undo in {escape_markdown(store.home.where)}: they are gone for good."


def delete(store: Store, ids: Sequence[str], kind: Kind, what: str) -> None:
    """Delete entries, and offer to undo that where the store can."""
    if not store.home.can_rename:
        for id_ in ids:
            store.remove(id_, kind)
        st.toast(f"Deleted {what}", icon=":material/delete:")
        return
    prune(store.home)
    deletion = store.delete(ids, kind)
    _open.add(deletion)
    st.session_state.setdefault(_DELETED, []).append(Undoable(deletion, what))
    threading.Thread(target=_watch, args=(deletion, presence()), name="driftscope-undo", daemon=True).start()


def show() -> None:
    """What this tab may undo, newest first."""
    for undoable in reversed(st.session_state.get(_DELETED, [])):
        key = undoable.deletion.name
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"deleted-{key}"):
            st.markdown(f":material/delete: Deleted {undoable.what}.", width="stretch")
            st.button("Undo", key=f"undo-{key}", icon=":material/undo:", on_click=_undo, args=(undoable,))


def page_opened(title: str) -> None:
    """What was deleted on another page can be undone no longer."""
    if st.session_state.get(_PAGE, title) != title:
        for undoable in st.session_state.pop(_DELETED, []):
            _end(undoable.deletion)
    st.session_state[_PAGE] = title


def _undo(undoable: Undoable) -> None:
    try:
        undoable.deletion.undo()
    except DriftscopeError as error:
        st.toast(escape_markdown(str(error)), icon=":material/error:")
        return
    _open.discard(undoable.deletion)
    st.session_state[_DELETED].remove(undoable)
    st.toast(f"Restored {undoable.what}", icon=":material/undo:")


def _watch(deletion: Deletion, is_present: Callable[[], bool]) -> None:
    absent, pause = 0, threading.Event()
    while deletion in _open and absent < MOST_ABSENT:
        pause.wait(LOOK_S)
        absent = 0 if is_present() else absent + 1
    _end(deletion)


def _end(deletion: Deletion) -> None:
    if deletion in _open:
        _open.discard(deletion)
        with contextlib.suppress(DriftscopeError):  # `prune` tries again
            deletion.remove()


@atexit.register
def _end_all() -> None:
    for deletion in tuple(_open):
        _end(deletion)
