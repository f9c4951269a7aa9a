"""Choices that live in the address, so that a link restores them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import streamlit as st

Option = TypeVar("Option", bound=str)


def one_of(label: str, options: Sequence[Option], key: str, **more: Any) -> Option:
    """A row of buttons, one of which is always chosen: the first at first."""
    picked = st.segmented_control(
        label, list(options), default=options[0], required=True, key=key, bind="query-params", **more
    )
    return picked or options[0]


def by_name(
    label: str, names: Iterable[str], parameter: str, key: str, *, usual: str | None = None, **more: Any
) -> str | None:
    """One of many by its name in the address: the widget's own binding would write there what is shown of it."""
    names = list(names)
    named = st.query_params.get(parameter, "")
    st.session_state[key] = named if named in names else usual
    return st.selectbox(
        label,
        names,
        key=key,
        on_change=lambda: st.query_params.update({parameter: st.session_state[key] or ""}),
        **more,
    )
