"""The Compare page's SQL: a statement of the user's over all stored runs, its answer as table, chart and files.

The statement runs in a thread beside the page, so that it can be stopped; the page looks for its end.
"""

from __future__ import annotations

import time

import streamlit as st

from engine.errors import SqlError, StoreError
from engine.store.store import Store
from pages._shared.compare import sql_queries, sql_result
from pages._shared.compare import sql_state as state
from pages._shared.compare.sql_fill import Filled, Mark, filled, mark_of
from pages._shared.compare.sql_state import Named, Statement
from pages._shared.compare.sql_work import LIMITS, Asked, Outcome, desk
from pages._shared.compare.state import Chosen
from pages._shared.components.sql_editor import editor, sent_statement
from pages._shared.errors import escape_markdown

QUICK_S = 0.7  # most statements take less, and then nothing has to be drawn twice
TICK_S = 0.4
_ASKED = "sql_asked"


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no run is compared, and then names for runs stand for nothing."""
    _section(store, chosen)


@st.fragment
def _section(store: Store, chosen: Chosen | None) -> None:
    store = store.still()  # runs may have come since the page was drawn
    known, trouble = state.named_queries(store)
    statement, wrong = _statement(known)
    asked = _asked(store, statement, chosen.ids if chosen else ()) if statement.text.strip() else None
    outcome = asked.outcome if isinstance(asked, Asked) else asked
    written = outcome.statement.written if outcome else ""
    if outcome is not None:
        state.note(outcome)
    sql_queries.controls(store, known, statement, trouble)
    editor(
        statement.text,
        opened=state.opened(),
        mark=_mark(outcome),
        marked=written,
        limits=LIMITS,
        on_run=lambda: _run(known),
    )
    if wrong is not None:
        st.error(sql_queries.told(wrong), icon=":material/error:")
    if statement.is_long:
        st.caption(
            f":material/link_off: This statement is too long for an address (over {state.MOST_ADDRESS:,} characters "
            "there), so a link to this page does not hold it. Save it under a name, and the link names it."
        )
    _head(statement, outcome)
    if outcome is not None:
        sql_result.show(outcome, chosen)
    elif isinstance(asked, Asked):
        _waiting(asked)
    else:
        st.info("Write a SELECT over the tables on the right, or open a query above.", icon=":material/database:")


def _statement(known: list[Named]) -> tuple[Statement, StoreError | None]:
    try:
        return state.current(known), None
    except StoreError as error:
        return Statement(""), error


def _asked(store: Store, statement: Statement, runs: tuple[str, ...]) -> Asked | Outcome:
    """The statement on its way, or done; asked when it is another one than before, or stands for other runs."""
    try:
        wanted = filled(statement.text, runs)
    except SqlError as error:
        return Outcome(Filled(statement.text, statement.text, ()), error=error)
    asked: Asked | None = st.session_state.get(_ASKED)
    if asked is None or asked.statement != wanted:
        _let_go()
        asked = st.session_state[_ASKED] = desk().ask(store, wanted)
        asked.done.wait(QUICK_S)
    return asked


def _run(known: list[Named]) -> None:
    text = sent_statement()
    if text is not None:
        _let_go()
        state.put(text, known)


def _let_go() -> None:
    """Another statement is to come: the one before is not waited for."""
    asked: Asked | None = st.session_state.pop(_ASKED, None)
    if asked is not None and not asked.done.is_set():
        asked.stop()


def _mark(outcome: Outcome | None) -> Mark | None:
    if outcome is None or not isinstance(outcome.error, SqlError):
        return None
    return mark_of(outcome.error, outcome.statement)


def _head(statement: Statement, outcome: Outcome | None) -> None:
    """What a saved query shows, and beside which table of a report it stands."""
    named = statement.named
    if named is None:
        return
    mixed = " · reported beside measured" if outcome and sql_result.origins_of(outcome) > 1 else ""
    beside = f" :gray[beside {escape_markdown(named.beside)}]" if named.beside else ""
    st.markdown(f"**{escape_markdown(named.title)}**{mixed}{beside}")
    if named.about:
        st.caption(_with_code(named.about))


def _with_code(text: str) -> str:
    """What stands between backticks stays so."""
    parts = text.split("`")
    return "".join(f"`{part}`" if place % 2 else escape_markdown(part) for place, part in enumerate(parts))


@st.fragment(run_every=TICK_S)
def _waiting(asked: Asked) -> None:
    if asked.done.is_set():
        st.rerun()
    seconds = time.monotonic() - asked.began
    word = "Stopping …" if asked.is_stopped else f"Running for {seconds:.0f} s, of at most {LIMITS.seconds:g} s"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, seconds / LIMITS.seconds), text=word)
        st.button("Stop", key="sql_stop", icon=":material/stop_circle:", disabled=asked.is_stopped, on_click=asked.stop)
