"""The selected rows of a table: the page decides on them, not the table; its height."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence

import streamlit as st

ROW_PX, BORDERS_PX = 35, 2
"""Of ``st.dataframe``; its header is as high as a row."""


def table_height(rows: int, most_px: int | None = None) -> int:
    """Of a table that shows all of its rows, or scrolls at ``most_px``; without a row, it has a line that says so."""
    height = ROW_PX * (max(rows, 1) + 1) + BORDERS_PX
    return height if most_px is None else min(height, most_px)


def show_rows(table: str, ids: Sequence[Hashable], selected: Container[Hashable]) -> str:
    """Select these rows of the table of these ids, and give the key to draw it under.

    Streamlit knows rows by their numbers. So a table of other rows has another key: what the browser still says of the
    earlier ones is never read as a choice of these.
    """
    key = f"{table} {hash(tuple(ids))}"
    rows = [row for row, id_ in enumerate(ids) if id_ in selected]
    st.session_state[key] = {"selection": {"rows": rows}}
    st.session_state[_shown(key)] = key, rows
    return key


def picked_rows(key: str) -> list[int] | None:
    """The rows that the reader has selected; None where they are those that were shown as selected.

    Streamlit calls a table back also when it hears its own selection from the browser again.
    """
    (drawn, shown), selection = (st.session_state[_shown(key)], st.session_state[key]["selection"])
    if drawn != key:
        return None
    rows = list(selection["rows"])
    return None if rows == shown else rows


def _shown(key: str) -> str:
    """One slot a table, whatever rows it has."""
    return f"rows shown of {key.rpartition(' ')[0]}"
