"""The selected rows of a table whose selection the page decides, not the table."""

from __future__ import annotations

from collections.abc import Sequence

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


def ticked_ids(key: str, shown: Sequence[str], ids: Sequence[str]) -> list[str] | None:
    """What is ticked in a table that shows these, where ``ids`` were ticked before; None as above.

    Who was ticked keeps his place, also where a filter hides his row.
    """
    rows = picked_rows(key)
    if rows is None:
        return None
    ticked = [shown[row] for row in rows if row < len(shown)]
    kept = [one for one in ids if one in ticked or one not in shown]
    return [*kept, *(one for one in ticked if one not in kept)]


def _shown(key: str) -> str:
    return f"rows shown under {key}"
