"""The reports' questions to their traces as saved queries over the store's tables, and what those tables hold.

A query runs as a user's SQL does: read-only, in a process of its own, with limits. The address has a query's name and
never its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import streamlit as st

from engine.comparing.queries import StoredQuery, saved_views
from engine.paths import DATA
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._profiles.traces import TraceSelection
from pages._shared import sql_answer
from pages._shared.choices import by_name, one_of
from pages._shared.components.sql_editor import type_word
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.links import sql_address
from pages._shared.sql_console import SqlStatement, run_statement, show_progress

FOLDER = DATA / "trace_views"
KEY, QUESTION, SCOPE = "asked_question", "question", "of"
ALL, CHOSEN = "All traces", "Selected traces"
SLOT = "profiles_running"


@st.fragment
def show(store: Store, chosen: TraceSelection | None) -> None:
    with shown_errors():
        _section(store.snapshot(), chosen)  # traces may have come since the page was drawn


def _section(store: Store, chosen: TraceSelection | None) -> None:
    view = _choice()
    ids: Sequence[str] = ()
    with st.container(horizontal=True, vertical_alignment="bottom", key="question-parts"):
        values = _parameters(view)
        if chosen is not None:
            ids = chosen.ids if one_of("Traces", (ALL, CHOSEN), SCOPE, width="content") == CHOSEN else ()
    sql = scoped(view.filled(values), ids)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"##### {escape_markdown(view.title)}", width="stretch")
        st.link_button(
            "Open in SQL", sql_address(sql), icon=":material/database:", type="tertiary", key="question_sql",
            help="In Compare runs, to be changed and saved",
        )  # fmt: skip
    st.caption(escape_markdown(f"{view.description} See report {view.report}, {view.section}."))
    version = tuple(entry.key for entry in store.found(TRACE).entries)
    running = run_statement(store, SqlStatement(sql), SLOT, version)
    outcome = running.outcome
    if outcome is None:
        show_progress(running, "question_stop")
    elif outcome.answer is not None and not outcome.answer.table.num_rows:
        st.info(f"No rows for {'the ticked traces' if ids else 'the traces of this store'}.", icon=":material/info:")
    else:
        sql_answer.show(outcome, None)
    with st.expander("The statement", icon=":material/code:"):
        st.code(sql, language="sql", wrap_lines=True)
    with st.expander("What the tables of traces hold", icon=":material/schema:"):
        _schema()


@cache
def views() -> tuple[StoredQuery, ...]:
    return saved_views(FOLDER)


def scoped(sql: str, ids: Sequence[str]) -> str:
    """The statement, of these traces alone where there are any. Ids are the store's: letters, digits and marks."""
    if not ids:
        return sql
    inside = "\n".join(f"    {line}" for line in sql.splitlines())
    names = ", ".join(f"'{id_}'" for id_ in ids)
    return f"SELECT * FROM (\n{inside}\n)\nWHERE trace_id IN ({names})"


def _choice() -> StoredQuery:
    named = {view.name: view for view in views()}
    titles = {view.name: f"{view.title} (report {view.report})" for view in views()}
    first = next(iter(named))
    name = by_name(
        "Question",
        named,
        QUESTION,
        KEY,
        usual=first,
        format_func=lambda name: titles.get(name, str(name)),
        help="What the reports asked of their traces, as queries over the tables here",
    )
    return named[name or first]


def _parameters(view: StoredQuery) -> dict[str, str]:
    """What the reader gives for them; without it, what the report had. A wrong value is an error of the engine's."""
    values = {}
    for name, default in view.parameters.items():
        value = st.text_input(
            name.replace("_", " ").capitalize(),
            key=f"{view.name}-{name}",
            bind="query-params",
            max_chars=60,
            placeholder=default,
            width=150,
            help=f"The report has “{default}”: `${name}` in the statement",
        )
        if value and value.strip():
            values[name] = value.strip()
    return values


def _schema() -> None:
    tables = {table.name: table for table in (TRACE.main, *TRACE.tables)}
    columns = list(tables[one_of("Table", list(tables), "trace_table", label_visibility="collapsed")])
    st.dataframe(
        {
            "column": [column.name for column in columns],
            "type": [type_word(column.type) for column in columns],
            "what it says": [column.what for column in columns],
        },
        hide_index=True,
        height=320,
        column_config={"what it says": st.column_config.TextColumn(width="large")},
        alt="Columns of the table",
    )
