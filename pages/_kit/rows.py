"""The selected rows of a table: the page decides on them, not the table; steps from row to row; its height."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Sequence
from typing import Literal

import streamlit as st

ROW_PX, BORDERS_PX = 35, 2
"""Of ``st.dataframe``; its header is as high as a row."""

ONE_ROW: Sequence[Literal["single-row", "single-cell"]] = ("single-row", "single-cell")
"""Of a table with one selected row: a click on any of its cells selects it too."""


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

    Streamlit calls a table back also when it hears its own selection from the browser again. A click on a cell leaves
    the selected row as it is, and a click on a row's box the cell.
    """
    (drawn, shown), selection = (st.session_state[_shown(key)], st.session_state[key]["selection"])
    if drawn != key:
        return None
    rows = list(selection["rows"])
    if rows == shown:
        rows = [row for row, _ in selection.get("cells", ())] or rows
    return None if rows == shown else rows


def show_steps(row: int | None, count: int, words: str, go: Callable[[int], None]) -> None:
    """``words`` on the open row's place, and buttons that ``go`` to the rows around it; None where filters hide it."""
    st.caption("hidden by the filters" if row is None else words, width="content")
    for word, step, icon, keys in (
        ("Previous", -1, ":material/arrow_upward:", "Alt+Up"),
        ("Next", 1, ":material/arrow_downward:", "Alt+Down"),
    ):
        target = -1 if row is None else row + step
        is_off = not 0 <= target < count
        st.button(word, icon=icon, shortcut=keys, key=f"go{step}", disabled=is_off, on_click=go, args=(target,))


def _shown(key: str) -> str:
    """One slot a table, whatever rows it has."""
    return f"rows shown of {key.rpartition(' ')[0]}"
