"""The Profiles page: profiler traces of the store, a test with its control, and where the difference comes from."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import streamlit as st

from engine.comparing.queries import ready_queries
from engine.errors import DriftscopeError
from engine.profile.traces import cautions, traces_of
from engine.questions import PAGES
from engine.store.schema import TRACE
from engine.store.store import Store
from pages._kit.card import cards
from pages._kit.choices import by_name
from pages._kit.errors import escaped, shown_errors
from pages._kit.frame import page
from pages._kit.handover import report_button
from pages._kit.links import address_button, sql_address
from pages._kit.sections import show_open
from pages._kit.shown import put_shown
from pages._kit.words import unbroken
from pages._profiles import traces

TITLE = "Profiles"
ICON = ":material/speed:"
LEAD = "A profiler's trace, or two side by side: **where the time goes, and what makes the difference**."


def sql(store: Store, ids: Sequence[str]) -> None:
    """The ready queries over traces; each opens in Compare's SQL."""
    queries = {query.key: query for query in ready_queries() if "JOIN traces USING" in query.sql}
    first = next(iter(queries))
    key = (
        by_name(
            "Question", queries, "question", "asked_question", usual=first, format_func=lambda key: queries[key].title
        )
        or first
    )
    address_button(
        "Open in SQL",
        sql_address(f"saved:{key}"),
        icon=":material/database:",
        key="question_sql",
        help="In Compare runs: press Run there. Add WHERE trace_id = '...' for one trace.",
    )
    st.code(queries[key].sql, language="sql", wrap_lines=True)


SECTIONS: dict[str, Callable[..., None]] = {view: partial(cards, keys) for (view, _), keys in PAGES["profiles"].items()}
SECTIONS |= {"SQL": sql, "Traces": traces.show}

page(TITLE, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    picker = traces.trace_picker({entry.id: entry.row for entry in store.listing().entries})
    chosen = picker.show(store.listing(TRACE))
    ids = [entry.id for entry in chosen]
with shown_errors(stops=False), suppress(DriftscopeError):  # of a damaged trace its cards tell, once
    if chosen and (notes := list(cautions(*traces_of(store, chosen)))):
        st.caption(unbroken(escaped(" ".join(notes))))
show_open(SECTIONS, store, ids)
if ids:
    report_button(ids, key="report")
put_shown(page="profiles", traces=ids)
