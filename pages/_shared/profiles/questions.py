"""The reports' questions to their traces as saved queries over the store's tables, and what those tables hold.

A query is run as a user's SQL is: read-only, in a process of its own, with limits. What is in the address is a query's
name and never its text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache

import pyarrow as pa
import streamlit as st

from engine.comparing.views import SavedView, saved_views
from engine.paths import DATA
from engine.store.columns import Table
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._shared.compare import sql_result
from pages._shared.compare.sql_fill import Filled
from pages._shared.compare.sql_work import LIMITS, Asked, Outcome, desk
from pages._shared.compare.state import sql_address
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.profiles.state import Chosen

FOLDER = DATA / "trace_views"
KEY, QUESTION, SCOPE = "asked_question", "question", "of"
ALL, CHOSEN = "All traces", "Those ticked above"
QUICK_S, TICK_S = 0.7, 0.4
_ASKED = "profiles_asked"
_TYPES = {pa.string(): "text", pa.float64(): "number", pa.bool_(): "true/false"}


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no trace is chosen."""
    _section(store, chosen)


@st.fragment
def _section(store: Store, chosen: Chosen | None) -> None:
    with shown_errors():
        _question(store, chosen)


def _question(store: Store, chosen: Chosen | None) -> None:
    store = store.still()  # traces may have come since the page was drawn
    view = _choice()
    with st.container(horizontal=True, vertical_alignment="bottom", key="question-parts"):
        values = _parameters(view)
        ids = _scope(chosen)
    statement = scoped(view.filled(values), ids)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"##### {escape_markdown(view.title)}", width="stretch")
        st.link_button(
            "Open in SQL", sql_address(statement), icon=":material/database:", type="tertiary", key="question_sql",
            help="In Compare runs, to be changed and saved",
        )  # fmt: skip
    said = f"{view.description} Beside report {view.report}, {view.section}."
    st.caption(escape_markdown(said))
    asked = _asked(store, statement)
    if asked.outcome is None:
        _waiting(asked)
    else:
        _outcome(asked.outcome, ids)
    with st.expander("The statement", icon=":material/code:"):
        st.code(statement, language="sql", wrap_lines=True)
    with st.expander("What the tables of traces hold", icon=":material/schema:"):
        _schema()


@cache
def views() -> tuple[SavedView, ...]:
    return saved_views(FOLDER)


def scoped(sql: str, ids: Sequence[str]) -> str:
    """The statement, of these traces alone where there are any. Ids are the store's: letters, digits and marks."""
    if not ids:
        return sql
    inside = "\n".join(f"    {line}" for line in sql.splitlines())
    named = ", ".join(f"'{one}'" for one in ids)
    return f"SELECT * FROM (\n{inside}\n)\nWHERE trace_id IN ({named})"


def _choice() -> SavedView:
    """By its name in the address: the widget's own binding would write its title there."""
    by_name = {view.name: view for view in views()}
    named = st.query_params.get(QUESTION, "")
    st.session_state[KEY] = named if named in by_name else next(iter(by_name))
    name = st.selectbox(
        "Question",
        list(by_name),
        format_func=lambda one: f"{by_name[one].title} (report {by_name[one].report})" if one in by_name else str(one),
        key=KEY,
        on_change=lambda: st.query_params.update({QUESTION: st.session_state[KEY]}),
        help="What the reports asked of their traces, as queries over the tables here",
    )
    return by_name[name]


def _parameters(view: SavedView) -> dict[str, str]:
    """What the reader gives for them; without it, what the report had. What cannot be is an error of the engine's."""
    found = {}
    for name, usual in view.parameters.items():
        given = st.text_input(
            name.replace("_", " ").capitalize(),
            key=f"{view.name}-{name}",
            bind="query-params",
            max_chars=60,
            placeholder=usual,
            width=150,
            help=f"The report has “{usual}”: `${name}` in the statement",
        )
        if given and given.strip():
            found[name] = given.strip()
    return found


def _scope(chosen: Chosen | None) -> tuple[str, ...]:
    if chosen is None:
        return ()
    of = st.segmented_control(
        "Of", [ALL, CHOSEN], default=ALL, required=True, key=SCOPE, bind="query-params", width="content"
    )
    return chosen.ids if of == CHOSEN else ()


# --- the answer -----------------------------------------------------------------------------------------------------


def _asked(store: Store, statement: str) -> Asked:
    """On its way, or done; asked anew when it is another one or the store is."""
    key = (statement, tuple(entry.key for entry in store.found(TRACE).entries))
    former: tuple[object, Asked] | None = st.session_state.get(_ASKED)
    if former is not None and former[0] == key:
        return former[1]
    if former is not None and not former[1].done.is_set():
        former[1].stop()
    asked = desk().ask(store, Filled(statement, statement, ()))
    st.session_state[_ASKED] = (key, asked)
    asked.done.wait(QUICK_S)
    return asked


def _outcome(outcome: Outcome, ids: Sequence[str]) -> None:
    if outcome.answer is not None and not outcome.answer.table.num_rows:
        which = "the ticked traces" if ids else "the store’s traces"
        st.info(f"None of {which} has an answer to it.", icon=":material/info:")
        return
    sql_result.show(outcome, None)


@st.fragment(run_every=TICK_S)
def _waiting(asked: Asked) -> None:
    if asked.done.is_set():
        st.rerun()
    seconds = time.monotonic() - asked.began
    word = "Stopping …" if asked.is_stopped else f"Running for {seconds:.0f} s, of at most {LIMITS.seconds:g} s"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, seconds / LIMITS.seconds), text=word)
        st.button("Stop", key="question_stop", icon=":material/stop_circle:", on_click=asked.stop)


# --- the tables -----------------------------------------------------------------------------------------------------


def _schema() -> None:
    tables = {table.name: table for table in (TRACE.main, *TRACE.tables)}
    name = st.segmented_control(
        "Table", list(tables), default=TRACE.main.name, required=True, key="trace_table", bind="query-params",
        label_visibility="collapsed",
    )  # fmt: skip
    st.dataframe(
        _columns(tables[name or TRACE.main.name]),
        hide_index=True,
        height=320,
        column_config={"what it says": st.column_config.TextColumn(width="large")},
        alt="Columns of the table",
    )


def _columns(table: Table) -> dict[str, list[str]]:
    return {
        "column": [one.name for one in table],
        "type": [_TYPES.get(one.type, "whole" if pa.types.is_integer(one.type) else str(one.type)) for one in table],
        "what it says": [one.what for one in table],
    }
