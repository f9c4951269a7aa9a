"""A page's sections as tabs: which is open is in the address, and only that one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import streamlit as st

from engine.store.store import Store
from pages._shared.errors import shown_errors

VIEW = "view"
Looked = TypeVar("Looked")


def show_open(sections: Mapping[str, Callable[[Store, Looked], None]], store: Store, looked_at: Looked) -> None:
    """Draw the section that is open, with what the page looks at."""
    tabs = st.tabs(list(sections), key=VIEW, on_change="rerun", bind="query-params")
    for tab, show in zip(tabs, sections.values(), strict=True):
        if tab.open:
            with tab, shown_errors():
                show(store, looked_at)
