"""Which statement the SQL section shows: as its address has it, or there its name where it is a saved one.

A statement that is too long for an address is kept in the session alone. The session has the history, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import quote_plus

import streamlit as st

from engine.comparing.saved import OwnQueries
from engine.comparing.views import examples, saved_views
from engine.errors import DriftscopeError, StoreError, nearest, shown
from engine.store.store import Store
from pages._shared.compare.sql_work import Outcome
from pages._shared.compare.state import SQL

SAVED = "saved:"
"""Begins the name of a query, in place of its text."""
KIND, X, Y, COLOUR = "sql_chart", "sql_x", "sql_y", "sql_colour"
MOST_ADDRESS = 8_000
"""Characters of a statement in an address. Browsers take more; mails, chats and proxies between them do not."""
MOST_HISTORY = 50
OWN = "own:"
_LONG, _OPENED, _HISTORY, _NOTED = "sql_long", "sql_opened", "sql_history", "sql_noted"
From = Literal["report", "example", "own"]


@dataclass(frozen=True, slots=True)
class Named:
    """A query that has a name. ``key`` is how an address calls it."""

    key: str
    group: From
    title: str
    about: str
    sql: str
    beside: str = ""  # "report 002, section 1.1"


@dataclass(frozen=True, slots=True)
class Statement:
    """What the editor shows. ``is_long`` says that no address holds it."""

    text: str
    named: Named | None = None
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class Past:
    """One statement of this session, and how it went the last time."""

    sql: str
    went: str
    is_error: bool


def named_queries(store: Store) -> tuple[list[Named], DriftscopeError | None]:
    """Views and examples that ship, then the user's own; and why the latter cannot be read."""
    try:
        own = OwnQueries(store.home).all()
    except DriftscopeError as error:
        return [*_shipped()], error
    return [*_shipped(), *(Named(OWN + one.name, "own", one.name, "", one.sql) for one in own)], None


@cache
def _shipped() -> tuple[Named, ...]:
    views = [
        Named(one.name, "report", one.title, one.description, one.sql, f"report {one.report}, section {one.section}")
        for one in saved_views()
    ]
    return (*views, *(Named(one.name, "example", one.title, one.description, one.sql) for one in examples()))


def current(known: Sequence[Named]) -> Statement:
    """The statement of the address, else of the session; StoreError where it names a query that is not there."""
    text = st.query_params.get(SQL, "")
    if not text:
        text = st.session_state.get(_LONG, "")
        return Statement(text, _of_text(text, known), is_long=bool(text))
    if not text.startswith(SAVED):
        return Statement(text, _of_text(text, known))
    key = text.removeprefix(SAVED)
    named = next((one for one in known if one.key == key), None)
    if named is None:
        raise StoreError(f"there is no saved query {shown(key)}", nearest(key, [one.key for one in known]))
    return Statement(named.sql, named)


def _of_text(text: str, known: Sequence[Named]) -> Named | None:
    return next((one for one in known if one.sql.strip() == text.strip()), None)


def put(text: str, known: Sequence[Named] = ()) -> None:
    """Show this statement from now on, as an address where one can hold it."""
    named = _of_text(text, known)
    is_long = named is None and len(quote_plus(text, errors="replace")) > MOST_ADDRESS
    st.session_state[_LONG] = text if is_long else ""
    former: Outcome | None = st.session_state.get(_NOTED)
    is_other = former is None or former.statement.written != text
    short = "" if is_long or not text.strip() else text
    # At once: each change of the address is a step for the browser's Back.
    st.query_params.update({SQL: SAVED + named.key if named else short} | (_no_chart() if is_other else {}))


def _no_chart() -> dict[str, str]:
    """What was chosen for the rows of another statement goes."""
    return {name: "" for name in (KIND, X, Y, COLOUR) if st.query_params.get(name)}


def open_text(text: str, known: Sequence[Named] = ()) -> None:
    """The same, in place of whatever stands in the editor."""
    put(text, known)
    st.session_state[_OPENED] = opened() + 1


def opened() -> int:
    """How many statements Python opened: the editor takes each of them over once."""
    return int(st.session_state.get(_OPENED, 0))


def history() -> list[Past]:
    """The latest first, each statement once."""
    found: list[Past] = st.session_state.get(_HISTORY, [])
    return found


def note(outcome: Outcome) -> None:
    """Put it into the history, unless it is there from this very run."""
    if st.session_state.get(_NOTED) is outcome:
        return
    st.session_state[_NOTED] = outcome
    sql = outcome.statement.written
    past = Past(sql, _went(outcome), outcome.error is not None)
    st.session_state[_HISTORY] = [past, *(one for one in history() if one.sql != sql)][:MOST_HISTORY]


def _went(outcome: Outcome) -> str:
    if outcome.answer is None:
        return str(outcome.error)
    rows = outcome.answer.table.num_rows
    return f"{'over ' if outcome.answer.is_cut else ''}{rows:,} {'row' if rows == 1 else 'rows'}"


def forget_history() -> None:
    st.session_state[_HISTORY] = []
