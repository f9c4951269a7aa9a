"""An atom picked in the browser, handed on exactly once; shared by the drawing, the grid and the atom view.

The browser sends a pick as a trigger with a stamp. The next messages name the last stamp that was heard, so that a
message which was under way when the reader clicked does not take the highlight away again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from pages._kit.components.once import Component, sent_under

OnPick = Callable[[int | None], None]


def show_pickable(
    component: Component, key: str, count: int, on_pick: OnPick | None, small: Mapping[str, object], large: object
) -> None:
    """Mount a component of so many items. ``on_pick`` is called before the rerun; without it nothing can be picked."""
    hand_on_late(key, count, on_pick)
    message = {**small, "pickable": on_pick is not None, "heard": heard(key)}
    component.show(key, message, sent_under(key), large, on_picked_change=partial(hand_on, key, count, on_pick))


def valid_index(index: int | None, count: int) -> int | None:
    """An index in the address or the session, if there is such an item."""
    return index if index is not None and 0 <= index < count else None


def hand_on(key: str, atoms: int, on_pick: OnPick | None) -> None:
    """Give ``on_pick`` the pick in the component's state, if it was not given that one before."""
    match st.session_state.get(key):
        case {"picked": {"atom": (int() | None) as atom, "stamp": str(stamp)}}:
            if stamp == heard(key):
                return
            st.session_state[_slot(key)] = stamp
            if on_pick is not None and (atom is None or 0 <= atom < atoms):
                on_pick(atom)


def hand_on_late(key: str, atoms: int, on_pick: OnPick | None) -> None:
    """A pick that came without a callback, as a test's does: handed on where the view is drawn, then all runs again."""
    before = heard(key)
    hand_on(key, atoms, on_pick)
    if heard(key) != before:
        st.rerun()


def heard(key: str) -> str:
    return str(st.session_state.get(_slot(key), ""))


def _slot(key: str) -> str:
    return f"picks heard under {key}"
