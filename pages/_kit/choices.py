"""Choices that live in the address, so that a link restores them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import streamlit as st

from engine.errors import shown
from pages._kit.errors import escaped
from pages._kit.shown import put_shown

Option = TypeVar("Option", bound=str)


def leave_other_pages(*names: str) -> None:
    """For the begin of a page, or of its filters: Streamlit hands on what another page's widget of that key had."""
    for name in names:
        if name not in st.query_params:
            st.session_state.pop(name, None)


def one_of(label: str, options: Sequence[Option], key: str, **more: Any) -> Option:
    """A row of buttons, one of which is always chosen: the first at first."""
    picked = st.segmented_control(
        label, list(options), default=options[0], required=True, key=key, bind="query-params", wrap=True, **more
    )
    return picked or options[0]


def complain(noun: str, options: Collection[str], key: str, instead: str) -> None:
    """A sentence where the address names no option. Before the widget, which drops that name from the address."""
    named = st.query_params.get(key)
    if named and named not in options:
        words = f"There is no {noun} {shown(named)} here. {instead} is chosen instead."
        st.error(escaped(words), icon=":material/error:")


def held(key: str, value: object, parameter: str = "") -> Callable[[], None]:
    """Give the widget of this key its value. What comes back is its callback: it puts another value into the address,
    under ``parameter`` or the key, and nothing where Streamlit hears of what it has drawn itself."""
    st.session_state[key] = value

    def put() -> None:
        chosen = st.session_state[key]
        if chosen != value:
            st.query_params[parameter or key] = "" if chosen is None else str(chosen)

    return put


def by_name(
    label: str, names: Iterable[str], parameter: str, key: str, *, usual: str | None = None, **more: Any
) -> str | None:
    """One of many by its name in the address: the widget's own binding would write there what is shown of it."""
    names = list(names)
    named = st.query_params.get(parameter, "")
    put = held(key, named if named in names else usual, parameter)
    chosen = st.selectbox(label, names, key=key, on_change=put, **more)
    put_shown(**{parameter: chosen})
    return chosen
