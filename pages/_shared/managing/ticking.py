"""A table of entries in which those that a page looks at are ticked, and what stands for whom."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from pages._shared.rows import picked_rows, show_rows

TABLE_HEIGHT, ROW_HEIGHT = 262, 35


def ticked_table(
    key: str,
    rows: Mapping[str, Mapping[str, Any]],
    ids: Sequence[str],
    take: Callable[[Sequence[str], Sequence[str]], None],
    *,
    columns: Mapping[str, Any],
    alt: str,
) -> None:
    """Rows by id, those of ``ids`` ticked; a click calls ``take(shown, ids)``, which asks ``ticked_ids``."""
    shown = list(rows)
    show_rows(key, [place for place, one in enumerate(shown) if one in ids])
    st.dataframe(
        list(rows.values()),
        hide_index=True,
        height=min(TABLE_HEIGHT, ROW_HEIGHT * (len(rows) + 1) + 2),
        column_config=dict(columns),
        key=key,
        on_select=lambda: take(shown, ids),
        selection_mode="multi-row",
        placeholder="–",
        alt=alt,
    )


def ticked_ids(key: str, shown: Sequence[str], ids: Sequence[str]) -> list[str] | None:
    """What is ticked in a table that shows these, where ``ids`` were ticked before; None where nobody ticked anything.

    Who was ticked keeps his place, also where a filter hides his row.
    """
    rows = picked_rows(key)
    if rows is None:
        return None
    ticked = [shown[row] for row in rows if row < len(shown)]
    kept = [one for one in ids if one in ticked or one not in shown]
    return [*kept, *(one for one in ticked if one not in kept)]


def legend(entries: Iterable[tuple[str, str]], label: str, hint: str = "") -> str:
    """HTML: a colour and a name each, escaped here; ``label`` is what a screen reader calls the list."""
    items = [
        f'<li><i style="background:{colour}" aria-hidden="true"></i>{html.escape(name)}</li>'
        for colour, name in entries
    ]
    more = f"<li>{html.escape(hint)}</li>" if hint else ""
    return f"<ul class='chosen-entries' aria-label='{html.escape(label)}'>{''.join(items)}{more}</ul>"
