"""A managing section's parts, of which one is shown at a time; which, is in the address."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from engine.store.store import Store
from pages._shared.errors import escape_markdown, shown_errors


def show_one(views: Mapping[str, Callable[[], None]], store: Store, what: str) -> None:
    """Draw the switch and the view that is chosen, else the first. ``what`` lies in the store: runs, traces, logs."""
    first = next(iter(views))
    view = st.segmented_control(
        "What to do",
        list(views),
        default=first,
        required=True,
        key="manage",
        bind="query-params",
        label_visibility="collapsed",
        help=f"{what} of this page lie in {escape_markdown(store.home.where)}.",
    )
    with shown_errors():
        views[view or first]()
