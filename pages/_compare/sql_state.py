"""Which statement the SQL section shows: the address holds its text, or its name where it is saved.

A statement that is too long for an address is kept in the session only, as is the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import quote_plus

import streamlit as st

from engine.comparing.own_queries import OwnQueries, OwnQuery
from engine.comparing.queries import StoredQuery, examples, saved_views
from engine.errors import DriftscopeError, StoreError, nearest, shown
from engine.figures.words import counted
from engine.store.store import Store
from pages._shared.sql_chart import COLOUR, KIND, X, Y
from pages._shared.sql_console import SqlOutcome

SQL, SAVED = "sql", "saved:"
"""In the address: a statement, or ``saved:`` and a query's key."""
MOST_ADDRESS = 8_000
"""Characters of a statement in an address. Browsers take more; mails, chats and proxies between them do not."""
MOST_HISTORY = 50
OWN = "own:"
_LONG, _OPENED, _HISTORY, _NOTED, _ASKED = "sql_long", "sql_opened", "sql_history", "sql_noted", "sql_asked"


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query that has a name. ``key`` is how an address calls it."""

    key: str
    group: Literal["report", "example", "own"]
    title: str
    sql: str
    about: str = ""
    beside: str = ""  # "report 002, section 1.1"

    @classmethod
    def shipped(cls, query: StoredQuery) -> NamedQuery:
        beside = f"report {query.report}, section {query.section}" if query.report else ""
        group: Literal["report", "example"] = "report" if beside else "example"
        return cls(query.name, group, query.title, query.sql, query.description, beside)

    @classmethod
    def own(cls, query: OwnQuery) -> NamedQuery:
        return cls(OWN + query.name, "own", query.name, query.sql)


@dataclass(frozen=True, slots=True)
class ShownStatement:
    """What the editor shows. ``is_long`` says that no address holds it."""

    text: str
    named: NamedQuery | None = None
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class PastStatement:
    sql: str
    result: str
    is_error: bool


def named_queries(store: Store) -> tuple[list[NamedQuery], DriftscopeError | None]:
    """Shipped views and examples, then the user's own queries; and why these cannot be read."""
    try:
        return [*_shipped(), *map(NamedQuery.own, OwnQueries(store.home).all())], None
    except DriftscopeError as error:
        return [*_shipped()], error


@cache
def _shipped() -> tuple[NamedQuery, ...]:
    return tuple(map(NamedQuery.shipped, (*saved_views(), *examples())))


def current(queries: Sequence[NamedQuery]) -> ShownStatement:
    """The statement of the address, else of the session; StoreError where it names a query that is not there."""
    text = st.query_params.get(SQL, "")
    if text.startswith(SAVED):
        key = text.removeprefix(SAVED)
        by_key = {query.key: query for query in queries}
        if key not in by_key:
            raise StoreError(f"there is no saved query {shown(key)}", nearest(key, by_key))
        return ShownStatement(by_key[key].sql, by_key[key])
    long = "" if text else st.session_state.get(_LONG, "")
    return ShownStatement(text or long, _query_of(text or long, queries), is_long=bool(long))


def _query_of(text: str, queries: Sequence[NamedQuery]) -> NamedQuery | None:
    return next((query for query in queries if query.sql.strip() == text.strip()), None)


def runs_by_itself(statement: ShownStatement) -> bool:
    """A saved query, and what was run in this session; what came by the address alone waits for a click."""
    return statement.named is not None or statement.text in st.session_state.get(_ASKED, ())


def ask(text: str) -> None:
    st.session_state[_ASKED] = {*st.session_state.get(_ASKED, ()), text}


def put(text: str, queries: Sequence[NamedQuery] = ()) -> None:
    """Run this statement and show it, as an address where one can hold it."""
    ask(text)
    named = _query_of(text, queries)
    is_long = named is None and len(quote_plus(text, errors="replace")) > MOST_ADDRESS
    st.session_state[_LONG] = text if is_long else ""
    short = "" if is_long or not text.strip() else text
    former: SqlOutcome | None = st.session_state.get(_NOTED)
    chart = [] if former is not None and former.statement.sql == text else [KIND, X, Y, COLOUR]  # of other rows
    dropped = {name: "" for name in chart if st.query_params.get(name)}
    # At once: each change of the address is a step for the browser's Back.
    st.query_params.update({SQL: SAVED + named.key if named else short} | dropped)


def open_text(text: str, queries: Sequence[NamedQuery] = ()) -> None:
    put(text, queries)
    st.session_state[_OPENED] = opened() + 1


def opened() -> int:
    """How many statements Python opened: the editor loads each of them once."""
    return int(st.session_state.get(_OPENED, 0))


def history() -> list[PastStatement]:
    """The latest first, each statement once."""
    past: list[PastStatement] = st.session_state.get(_HISTORY, [])
    return past


def note(outcome: SqlOutcome) -> None:
    """Put it into the history, unless it is there from this very run."""
    if st.session_state.get(_NOTED) is outcome:
        return
    st.session_state[_NOTED] = outcome
    sql, result = outcome.statement.sql, str(outcome.error)
    if outcome.answer is not None:
        rows = counted(outcome.answer.table.num_rows, "row")
        result = f"over {rows}" if outcome.answer.is_cut else rows
    latest = PastStatement(sql, result, outcome.error is not None)
    st.session_state[_HISTORY] = [latest, *(past for past in history() if past.sql != sql)][:MOST_HISTORY]


def clear_history() -> None:
    st.session_state[_HISTORY] = []
