"""The selected rows of a table whose selection the page decides, not the table."""

from __future__ import annotations

import streamlit as st


def show_rows(key: str, rows: list[int]) -> None:
    """Select these rows of the table that is drawn next under this key."""
    st.session_state[key] = {"selection": {"rows": rows}}
    st.session_state[_shown(key)] = rows


def picked_rows(key: str) -> list[int] | None:
    """The rows that the reader has selected; None where they are those that were shown as selected.

    Streamlit calls a table back also when it hears its own selection from the browser again.
    """
    rows: list[int] = list(st.session_state[key]["selection"]["rows"])
    return None if rows == st.session_state.get(_shown(key)) else rows


def _shown(key: str) -> str:
    return f"rows shown under {key}"
