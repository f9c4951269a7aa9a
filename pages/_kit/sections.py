"""A page's sections as tabs: which is open is in the address, and only that one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages._kit.choices import complain, held
from pages._kit.errors import shown_errors
from pages._kit.shown import put_shown

VIEW = "view"


def is_unfolded(key: str, at_first: bool) -> bool:
    return bool(st.session_state.get(f"kept {key}", at_first))


def put_unfolded(key: str, is_open: bool) -> None:
    """Open or close it in the next run, whatever its reader did."""
    st.session_state[f"kept {key}"] = is_open
    st.session_state.pop(f"drawn {key}", None)


def fold(label: str, key: str, is_open: bool, icon: str) -> DeltaGenerator:
    """An expander that stays as its reader left it. ``is_open``: of ``is_unfolded``, ``label`` always the same.

    Whether it is open is its state, which is set where ``is_open`` is another one than was drawn last. To Streamlit an
    expander with another label or default is another one: what is typed while it unfolds would be lost, and the
    keyboard's place with it.
    """

    def keep() -> None:
        st.session_state[f"kept {key}"] = st.session_state[key]

    if key not in st.session_state or st.session_state.get(f"drawn {key}") != is_open:
        st.session_state[key] = st.session_state[f"drawn {key}"] = is_open
    return st.expander(label, key=key, icon=icon, on_change=keep)


def show_open(sections: Mapping[str, Callable[..., None]], *looked_at: Any) -> None:
    """Draw the section that is open, with what the page looks at.

    Streamlit's own binding would lose a page's view on the way back to it from a page that has views too.
    """
    names = list(sections)
    complain("view", names, VIEW, names[0])
    named = st.query_params.get(VIEW)
    view = named if named in names else names[0]
    put_shown(**{VIEW: view})
    tabs = st.tabs(names, key=VIEW, on_change=held(VIEW, view))
    for tab, (name, show) in zip(tabs, sections.items(), strict=True):
        if tab.open:
            with tab, shown_errors(name):
                show(*looked_at)
