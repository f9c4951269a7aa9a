"""The Compare page's SQL: a user's statement over all stored runs, its result as table, chart and files."""

from __future__ import annotations

import re

import streamlit as st

from engine.errors import SqlError, StoreError
from engine.store.store import Store
from pages._compare import sql_queries
from pages._compare import sql_state as state
from pages._compare.runs import RunSelection
from pages._compare.sql_state import NamedQuery, ShownStatement
from pages._shared import sql_answer
from pages._shared.components.sql_editor import editor, sent_statement
from pages._shared.errors import error_markdown, escape_markdown
from pages._shared.shown import put_shown
from pages._shared.sql_console import (
    LIMITS,
    RUN_NAMES,
    SqlOutcome,
    SqlStatement,
    drop_statement,
    run_statement,
    show_progress,
)

SLOT = "sql_running"
_PLACE = re.compile(r", line (\d+)(?: column (\d+))?(?=, at '|$)")
_NAMED = (re.compile('column named "([^"]+)"'), re.compile("^[^'\"]*'([^']+)'"), re.compile('"([^"]+)"'))


@st.fragment
def show(store: Store, chosen: RunSelection | None) -> None:
    """Draw this section; ``chosen`` is None where no run is compared: then the names for runs are empty."""
    store = store.snapshot()  # runs may have come since the page was drawn
    queries, trouble = state.named_queries(store)
    wrong = None
    try:
        statement = state.current(queries)
    except StoreError as error:
        statement, wrong = ShownStatement(""), error
    put_shown(sql=statement.text, saved=statement.named.key if statement.named else None)
    running = None
    may_run = state.runs_by_itself(statement)
    if statement.text.strip() and may_run:
        running = run_statement(store, SqlStatement.of(statement.text, chosen.ids if chosen else ()), SLOT)
    outcome = running.outcome if running else None
    if outcome is not None:
        state.note(outcome)
    sql_queries.controls(store, queries, statement, trouble)
    editor(
        statement.text,
        opened=state.opened(),
        mark=mark_of(outcome.error, outcome.statement.sql) if outcome and isinstance(outcome.error, SqlError) else None,
        marked=outcome.statement.sql if outcome else "",
        limits=LIMITS,
        names=RUN_NAMES,
        on_run=lambda: _run(queries),
    )
    if wrong is not None:
        st.error(error_markdown(wrong), icon=":material/error:")
    if statement.is_long:
        st.caption(
            f":material/link_off: This statement is too long for an address (over {state.MOST_ADDRESS:,} characters "
            "there), so a link to this page does not include it. Save it under a name to link to it."
        )
    if statement.named is not None:
        _head(statement.named, outcome)
    if outcome is not None:
        sql_answer.show(outcome, chosen)
    elif running is not None:
        show_progress(running, "sql_stop")
    elif not may_run and statement.text.strip():
        st.info("This statement came with the address, and has not run.", icon=":material/link:")
        st.button("Run", type="primary", key="sql_run_link", on_click=state.ask, args=(statement.text,))
    else:
        st.info("Write a SELECT over the tables on the right, or open a query above.", icon=":material/database:")


def _run(queries: list[NamedQuery]) -> None:
    text = sent_statement()
    if text is not None:
        drop_statement(SLOT)
        state.put(text, queries)


def _head(query: NamedQuery, outcome: SqlOutcome | None) -> None:
    """What a saved query shows, and which table of a report it reproduces."""
    mixed = " · reported beside measured" if outcome and sql_answer.has_several_origins(outcome) else ""
    beside = f" :gray[beside {escape_markdown(query.beside)}]" if query.beside else ""
    st.markdown(f"**{escape_markdown(query.title)}**{mixed}{beside}")
    if query.about:
        parts = query.about.split("`")  # text between backticks is code
        st.caption("".join(f"`{part}`" if place % 2 else escape_markdown(part) for place, part in enumerate(parts)))


def mark_of(error: SqlError, sql: str) -> tuple[int, int] | None:
    """Start and end of the wrong part: at the error's line and column, else at the first use of the name it gives."""
    place, lines = _PLACE.search(error.what), sql.split("\n")
    if place is not None and int(place[1]) <= len(lines):
        line = lines[int(place[1]) - 1]
        start = sum(len(before) + 1 for before in lines[: int(place[1]) - 1])
        end = start + len(line)
        if place[2]:
            start += int(place[2]) - 1
            word = re.match(r"\$?\w+|.", sql[start:])
            end = min(len(sql), start + (len(word[0]) if word else 0))
        else:
            start += len(line) - len(line.lstrip())
        return (start, end) if start < end else None
    name = next((match[1] for pattern in _NAMED if (match := pattern.search(error.what))), "")
    use = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) if name else None
    return use.span() if use else None
