"""The SQL editor: a text area with colours, line numbers and a mark where a statement is wrong, and the schema beside.

A click on a name of the schema puts it where the caret is, in the browser alone. Python hears of a statement when it is
run (a button, or Ctrl+Enter), and of a draft when the reader leaves the text area. It replaces what is written only
where it opened another statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import streamlit as st

from engine.store.schema import KINDS
from engine.store.sql.process import Limits
from pages._shared.components.once import source
from pages._shared.components.token_strip import nothing, sendable, utf16_length

KEY = "sql_editor"
_TYPES = {pa.string(): "text", pa.float64(): "number", pa.bool_(): "true/false"}


def editor(
    text: str,
    *,
    opened: int,
    mark: tuple[int, int] | None,
    marked: str,
    limits: Limits,
    names: Mapping[str, str],
    on_run: Callable[[], object],
) -> None:
    """Draw it. ``opened`` counts the statements that Python opened; ``mark`` is a place in ``marked``, the text as run;
    ``names`` stand for runs in a statement, each with its meaning.
    """
    data = {
        "text": sendable(text),
        "opened": opened,
        "mark": None if mark is None else [utf16_length(marked[:place]) for place in mark],
        "marked": sendable(marked),
        "tables": schema(names),
        "limits": f"One SELECT, read-only · at most {limits.rows:,} rows, {limits.seconds:g} s, {limits.memory_mb} MB",
    }
    _mount(key=KEY, data=data, on_run_change=on_run, on_draft_change=nothing)


def sent_statement() -> str | None:
    match st.session_state.get(KEY):
        case {"run": {"text": str(text)}}:
            return text
    return None


def draft() -> str | None:
    """What stood in the editor when the reader last left it; None where nothing was written since it was opened."""
    match st.session_state.get(KEY):
        case {"draft": str(text)}:
            return text
    return None


def schema(names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Tables, columns, types and what they say, and the names that stand for the runs that are compared."""
    found = []
    for table in (table for kind in KINDS for table in (kind.main, *kind.tables)):
        columns = [[column.name, type_word(column.type), column.what] for column in table]
        columns.insert(0, [table.name, "table", "the whole table"])
        found.append({"name": table.name, "about": f"{len(table.names)} columns", "open": False, "columns": columns})
    runs = [[name, "text" if name == "$control" else "list", meaning] for name, meaning in names.items()]
    return [*found, {"name": "compared runs", "about": "", "open": False, "columns": runs}]


def type_word(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {'structs' if pa.types.is_struct(kind.value_type) else type_word(kind.value_type) + 's'}"
    if pa.types.is_integer(kind):
        return "whole"
    return "time" if pa.types.is_timestamp(kind) else _TYPES.get(kind, str(kind))


# Once, at import: Streamlit warns when one name is registered with two definitions.
_mount: Callable[..., object] = st.components.v2.component(
    "driftscope_sql_editor",
    html=source("sql_editor.html"),
    css=source("component_theme.css", "sql_editor.css"),
    js=source("sql_editor.js"),
)
